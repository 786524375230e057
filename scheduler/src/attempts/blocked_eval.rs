//! The blocked evaluation that waits for capacity after its parent could not place everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocMetric, EvalStatus, EvalTrigger, Evaluation, Str, Time};

use crate::seed::Seed;

const FAILED_PLACEMENTS: &str = "created to place remaining allocations";
const PLACEMENT_CONFLICTS: &str = "created due to placement conflicts";

/// Reasons why a blocked evaluation waits.
#[derive(Debug)]
pub(crate) struct WaitsFor<'a> {
    /// Groups without a node for an allocation, with the reasons.
    pub failed: &'a BTreeMap<Str, AllocMetric>,
    /// Classes of nodes; `None`: the constraints escape the node class.
    pub classes: Option<&'a BTreeMap<Str, bool>>,
    /// The quota that kept a group from being placed; empty: none did.
    pub quota: Str,
}

/// Builds the blocked evaluation of `parent`. `trigger` is `MaxPlans` after too many plan conflicts.
pub(crate) fn create(
    parent: &Evaluation,
    waits_for: WaitsFor<'_>,
    seed: &mut Seed,
    now: Time,
    trigger: EvalTrigger,
) -> Evaluation {
    let WaitsFor { failed, classes, quota } = waits_for;
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
        escaped_computed_class: classes.is_none(),
        class_eligibility: classes.cloned().map(Arc::new),
        quota_limit_reached: quota,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    }
}
