//! The blocked evaluation that waits for capacity after its parent could not place everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocMetric, EvalStatus, EvalTrigger, Evaluation, Str, Time};

use crate::seed::Seed;

const FAILED_PLACEMENTS: &str = "created to place remaining allocations";
const PLACEMENT_CONFLICTS: &str = "created due to placement conflicts";

/// Builds the blocked evaluation of `parent` for these failed groups and classes of nodes; without classes, the
/// constraints escape the node class. `trigger` is `MaxPlans` after too many plan conflicts.
pub(crate) fn create(
    parent: &Evaluation,
    failed: &BTreeMap<Str, AllocMetric>,
    class_eligibility: Option<&BTreeMap<Str, bool>>,
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
        failed_tg_allocs: (!failed.is_empty()).then(|| Arc::new(failed.clone())),
        escaped_computed_class: class_eligibility.is_none(),
        class_eligibility: class_eligibility.cloned().map(Arc::new),
        create_time: now.nanos(),
        modify_time: now.nanos(),
        ..Evaluation::default()
    }
}
