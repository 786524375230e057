//! The blocked evaluation that waits for capacity after its parent could not place everything.

use std::sync::Arc;

use songline_model::{EvalStatus, EvalTrigger, Evaluation, Time};

use super::Decision;
use crate::seed::Seed;

const FAILED_PLACEMENTS: &str = "created to place remaining allocations";
const PLACEMENT_CONFLICTS: &str = "created due to placement conflicts";

/// Builds the blocked evaluation of `parent`. `trigger` is `MaxPlans` after too many plan conflicts.
pub(super) fn create(
    parent: &Evaluation,
    decision: &Decision,
    seed: &mut Seed,
    now: Time,
    trigger: EvalTrigger,
) -> Evaluation {
    let conflicts = trigger == EvalTrigger::MaxPlans;
    Evaluation {
        id: seed.eval_id(),
        namespace: parent.namespace.clone(),
        priority: parent.priority,
        kind: parent.kind.clone(),
        triggered_by: trigger,
        job_id: parent.job_id.clone(),
        job_modify_index: parent.job_modify_index,
        status: EvalStatus::Blocked,
        status_description: if conflicts { PLACEMENT_CONFLICTS } else { FAILED_PLACEMENTS }.into(),
        previous_eval: Some(parent.id),
        failed_tg_allocs: (!decision.failed.is_empty()).then(|| Arc::new(decision.failed.clone())),
        escaped_computed_class: decision.class_eligibility.is_none(),
        class_eligibility: decision.class_eligibility.clone().map(Arc::new),
        create_time: now.nanos(),
        modify_time: now.nanos(),
        ..Evaluation::default()
    }
}
