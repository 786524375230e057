//! Background tasks that run as long as the server. They hold the server weakly, so that a waiting task does not keep
//! it alive. Tasks of a leadership term and work on threads of its own are started elsewhere.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Core;

/// Runs a task until it is done or the server shuts down, whichever is first.
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

/// Calls `look` after each `pause`, until the server shuts down.
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
