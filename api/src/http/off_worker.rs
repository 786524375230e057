//! Running what takes long where no other request waits behind it.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs work of many milliseconds; a runtime of several threads lets another thread take over its other tasks meanwhile.
pub(super) fn off_the_worker<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        Ok(_) | Err(_) => run(),
    }
}
