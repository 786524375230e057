//! The end of something, which others wait for: a machine's life, a reign, a node agent. Whatever belongs to it ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether it is over.
#[derive(Debug, Default)]
pub struct Ending {
    over: AtomicBool,
    told: Notify,
}

impl Ending {
    /// Not over yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// It is over.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.told.notify_waiters();
    }

    /// Whether it is.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns when it is.
    pub async fn over(&self) {
        let told = self.told.notified();
        if !self.is_over() {
            told.await;
        }
    }

    /// Does something until that has ended by itself, or this has.
    pub fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let ending = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = ending.over() => {}
                () = work => {}
            }
        });
    }
}
