//! Threads that keep what is derived from the log: they may lag behind, so they leave the processor to those whose work somebody waits for.

/// How much lower than usual: enough to lose against every thread of the server, not so much that idle machines starve them.
const NICE: i32 = 10;

/// Lowers the priority of the calling thread and of those it starts from now on: on Linux each thread has its own, and hands it down.
pub(crate) fn give_way() {
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the priority of a thread in the background could not be lowered");
    }
}

/// Runs `open` where the threads that it starts have a low priority: stores bring workers of their own.
pub(crate) fn open<T: Send>(open: impl FnOnce() -> T + Send) -> T {
    let run = || {
        give_way();
        open()
    };
    std::thread::scope(|scope| match scope.spawn(run).join() {
        Ok(opened) => opened,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
