//! The hooks of an allocation: their list, and the rules of their phases.

mod alloc_dir;
mod await_previous;
mod csi;
mod group_services;
mod network;

use std::future::ready;
use std::sync::Arc;

use songline_model::{AllocId, Allocation};
use tokio::sync::mpsc;

use super::resources::AllocResources;
use crate::allocdir::AllocDir;
use crate::core::Input;
use crate::csi::HeldVolumes;
use crate::driver::Boxed;
use crate::runner::{Order, Shared, send};

/// The hooks, in order. `awaited`: earlier allocations that have to end first; `held`: volumes that an earlier agent
/// mounted.
fn list(
    shared: &Shared,
    alloc: AllocId,
    awaited: Vec<AllocId>,
    held: HeldVolumes,
    resources: &AllocResources,
) -> Vec<Arc<dyn AllocHook>> {
    vec![
        Arc::new(await_previous::AwaitPrevious(awaited)),
        Arc::new(alloc_dir::Dirs),
        Arc::new(network::Network),
        Arc::new(group_services::GroupServices),
        Arc::new(csi::Csi::new(shared, alloc, held, resources)),
    ]
}

/// One thing that an allocation needs. A phase that does not concern the hook does nothing.
pub(in crate::runner) trait AllocHook: Send + Sync {
    /// Name in errors.
    fn name(&self) -> &'static str;

    /// Comes before the tasks are set up. When the allocation is stopped meanwhile, the future is dropped.
    fn prerun<'a>(&'a self, _alloc: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }

    /// Comes when all tasks have ended for good, also after a `prerun` that failed, was dropped, or never came.
    fn postrun<'a>(&'a self, _alloc: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }

    /// Removes what is left. Comes after `postrun`, when the allocation is no longer needed.
    fn destroy<'a>(&'a self, _alloc: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }
}

/// An allocation as its hooks see it.
pub(in crate::runner) struct AllocContext {
    pub shared: Arc<Shared>,
    /// The servers' copy.
    pub alloc: Arc<Allocation>,
    pub dir: AllocDir,
    pub resources: Arc<AllocResources>,
    back: mpsc::WeakUnboundedSender<Order>,
}

impl AllocContext {
    pub fn new(
        shared: Arc<Shared>,
        alloc: Arc<Allocation>,
        dir: AllocDir,
        resources: Arc<AllocResources>,
        back: mpsc::WeakUnboundedSender<Order>,
    ) -> Self {
        Self { shared, alloc, dir, resources, back }
    }

    /// Tells the state machine.
    fn tell(&self, input: Input) {
        send(&self.back, input);
    }
}

/// The hooks of one allocation.
pub(in crate::runner) struct AllocHooks {
    list: Vec<Arc<dyn AllocHook>>,
}

impl AllocHooks {
    /// `awaited`: earlier allocations that have to end first; `held`: volumes that an earlier agent mounted.
    pub fn new(
        shared: &Shared,
        alloc: AllocId,
        awaited: Vec<AllocId>,
        held: HeldVolumes,
        resources: &AllocResources,
    ) -> Self {
        Self { list: list(shared, alloc, awaited, held, resources) }
    }

    /// Adds hooks after the others.
    pub fn with(mut self, more: Vec<Arc<dyn AllocHook>>) -> Self {
        self.list.extend(more);
        self
    }

    /// The first error ends the phase.
    pub async fn prerun(&self, alloc: &AllocContext) -> Result<(), String> {
        for hook in &self.list {
            let done = hook.prerun(alloc).await;
            done.map_err(|error| format!("pre-run hook {:?} failed: {error}", hook.name()))?;
        }
        Ok(())
    }

    /// The first error ends the phase; it is logged.
    pub async fn postrun(&self, alloc: &AllocContext) {
        for hook in &self.list {
            if let Err(error) = hook.postrun(alloc).await {
                return failed(hook.as_ref(), alloc, &error, "a hook failed after the tasks of an allocation");
            }
        }
    }

    /// Runs all hooks, the last one first; errors are logged.
    pub async fn destroy(&self, alloc: &AllocContext) {
        for hook in self.list.iter().rev() {
            if let Err(error) = hook.destroy(alloc).await {
                failed(hook.as_ref(), alloc, &error, "a hook failed while an allocation was removed");
            }
        }
    }
}

fn failed(hook: &dyn AllocHook, context: &AllocContext, error: &str, when: &str) {
    tracing::warn!(alloc = %context.alloc.id, hook = hook.name(), error, "{when}");
}
