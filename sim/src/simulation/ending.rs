//! An end that tasks wait for: of a machine's life, a leadership term or a node agent. Tasks spawned under it are
//! dropped with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The end of something, reached or not.
#[derive(Debug, Default)]
pub struct Ending {
    over: AtomicBool,
    told: Notify,
}

impl Ending {
    /// Creates an end that is not reached yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Marks the end as reached.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.told.notify_waiters();
    }

    /// Whether the end is reached.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns when the end is reached.
    pub async fn over(&self) {
        let told = self.told.notified();
        if !self.is_over() {
            told.await;
        }
    }

    /// Spawns work, which runs until it ends by itself or the end is reached.
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
