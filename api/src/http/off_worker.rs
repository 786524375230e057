//! Long computations that do not block the other requests of a worker thread.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs a computation of many milliseconds. In a multi-threaded runtime another thread takes over the other tasks of
/// this one meanwhile.
pub(super) fn off_the_worker<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        Ok(_) | Err(_) => run(),
    }
}
