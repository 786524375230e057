//! Hooks: what the set-up of an allocation and of a task does, and what their end undoes. Each hook is a small object
//! that does one thing, in the phases that concern it. The state machine decides when a phase comes.
//!
//! [`alloc`] and [`task`] each have a list, in order, and the rules of its phases. What a hook makes for later ones
//! goes through [`resources`].

pub(super) mod alloc;
pub(super) mod resources;
pub(super) mod task;

use std::sync::Arc;

use self::alloc::AllocHook;
use self::task::TaskHook;

/// Hooks after the agent's own. An agent has none; tests have hooks that fail.
#[derive(Default)]
pub(super) struct ExtraHooks {
    /// For the allocation.
    pub alloc: Vec<Arc<dyn AllocHook>>,
    /// For each of its tasks.
    pub task: Vec<Arc<dyn TaskHook>>,
}

/// Runs `work` on a thread that may block. A panic of `work` is an error, too.
pub(super) async fn blocking<T: Send + 'static, E: ToString + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}
