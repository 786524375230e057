//! What a server does beside requests, in tasks of their own for as long as it runs. They hold it weakly: waiting must not keep it alive.
//! What belongs to a reign is not here, nor what has a thread of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Core;

/// Does work until it is done or the server goes down, whichever is first.
pub(super) fn until_shutdown<W>(core: &Arc<Core>, work: impl FnOnce(Weak<Core>) -> W)
where
    W: Future<Output = ()> + Send + 'static,
{
    let (work, shutdown) = (work(Arc::downgrade(core)), core.shutdown.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            () = shutdown.cancelled() => {}
        }
    });
}

/// Looks after something with this pause before each look, until the server goes down.
pub(super) fn every<L>(core: &Arc<Core>, pause: Duration, look: impl Fn(Arc<Core>) -> L + Send + 'static)
where
    L: Future<Output = ()> + Send + 'static,
{
    until_shutdown(core, async move |own| {
        loop {
            tokio::time::sleep(pause).await;
            let Some(core) = own.upgrade() else { return };
            look(core).await;
        }
    });
}
