//! Whether the accepted part of a plan exceeds a quota. Two plans that were made on one view may each fit alone.

use songline_model::{Allocation, Plan, PlanResult, QuotaUsed};
use songline_projections::State;

/// Whether the quota of the plan's namespace has no room for the accepted part. The limit may have been lowered below
/// the use: what does not make the use grow is accepted.
pub(super) fn is_exceeded(view: &State, plan: &Plan, result: &PlanResult) -> bool {
    let Some(limited) = plan.job.as_ref().and_then(|job| view.quota_of_namespace(&job.namespace)) else {
        return false;
    };
    let before = view.used_of_quota(limited.quota);
    let mut after = before.clone();
    let mut leave = |alloc: &Allocation| {
        if view.is_in_quota(&alloc.namespace, limited.quota) {
            after.subtract(&QuotaUsed::of(alloc));
        }
    };
    let stopped = result.node_update.values().flatten().map(|stop| stop.id);
    let preempted = result.node_preemptions.values().flatten().map(|preempt| preempt.id);
    let written = result.node_allocation.values().flatten();
    let rewritten = written.clone().map(|alloc| alloc.id);
    stopped.chain(preempted).chain(rewritten).filter_map(|id| view.alloc(id)).for_each(|alloc| leave(alloc));
    written.for_each(|alloc| after.add(&QuotaUsed::of(alloc)));
    !limited.limit.exceeded(&before, &after).is_empty()
}
