//! Allocations whose node was away and that are heard of again: what looked at them in case they stayed away is called off.
//! Which of them go on is the scheduler's decision.

use std::sync::Arc;

use songline_model::{AllocClientStatus, Allocation, EvalStatus, EvalTrigger, Evaluation, Time};

use crate::table::tables;
use crate::tx::Tx;

const CALLED_OFF: &str = "allocs reconnected";

/// When the limit on how long its node may be away is reached: `None` while nothing waits for its node.
fn limit(alloc: &Allocation) -> Option<Time> {
    let waits = alloc.client_status == AllocClientStatus::Unknown && !alloc.server_terminal();
    Some(alloc.last_unknown().filter(|_| waits)?.plus(alloc.group()?.max_client_disconnect?))
}

/// Whether the evaluation is there for this allocation: it says so, unless another evaluation comes before and took that place.
fn waits_on(alloc: &Allocation, eval: &Evaluation) -> bool {
    limit(alloc).is_some_and(|limit| alloc.followup_eval_id == Some(eval.id) || eval.wait_until == Some(limit))
}

/// Cancels the timeouts of an allocation that came back; `before` is its row as it was. A timeout stays while another allocation of the
/// job waits on it. All rows of the entry are written already.
pub(super) fn call_off_timeouts(tx: &mut Tx<'_>, before: &Allocation, modify_time: i64) {
    let (namespace, job) = (&before.namespace, &before.job_id);
    let over: Vec<Arc<Evaluation>> = tx
        .evals_of_job(namespace, job)
        .filter(|eval| eval.status == EvalStatus::Pending && eval.triggered_by == EvalTrigger::MaxDisconnectTimeout)
        .filter(|eval| waits_on(before, eval))
        .filter(|eval| !tx.allocs_of_job(namespace, job).any(|alloc| waits_on(alloc, eval)))
        .collect();
    for eval in over {
        tx.put::<tables::Evals>(Evaluation {
            status: EvalStatus::Canceled,
            status_description: CALLED_OFF.into(),
            modify_index: tx.index(),
            modify_time,
            ..Evaluation::clone(&eval)
        });
    }
}
