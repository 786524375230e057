//! Waits for the end of earlier allocations: the one that this one replaces, and those that it preempted.

use songline_model::AllocId;

use super::{AllocContext, AllocHook};
use crate::driver::Boxed;

/// The allocations to wait for; none after a restart of the agent, because the earlier agent waited for them.
pub(super) struct AwaitPrevious(pub Vec<AllocId>);

impl AllocHook for AwaitPrevious {
    fn name(&self) -> &'static str {
        "await_previous_allocations"
    }

    fn prerun<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let AllocContext { shared, alloc, resources, .. } = context;
            let _blocked = (!self.0.is_empty()).then(|| shared.waits.block());
            for id in &self.0 {
                let ended = shared.earlier.ended(*id).await;
                if alloc.previous_allocation == Some(*id) {
                    resources.set_previous(ended);
                }
            }
            Ok(())
        })
    }
}
