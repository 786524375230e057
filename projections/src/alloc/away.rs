//! Allocations whose node was away and that are heard of again: what looked at them in case they stayed away is called off.
//! Which of them go on is the scheduler's decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocClientStatus, Allocation, EvalStatus, EvalTrigger, Evaluation, JobKey, Time};

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

/// Cancels the timeouts of allocations that came back; `before` are their rows as they were, each with the time of the report. A timeout
/// stays while another allocation of the job waits on it. All rows of the entry are written already.
pub(super) fn call_off_timeouts(tx: &mut Tx<'_>, before: &[(Arc<Allocation>, i64)]) {
    let mut jobs: BTreeMap<JobKey, Vec<&(Arc<Allocation>, i64)>> = BTreeMap::new();
    for row in before {
        jobs.entry(row.0.job_key()).or_default().push(row);
    }
    for (key, before) in jobs {
        let mut over = Vec::new();
        // A job has few timeouts and may have many evaluations and allocations: each kind is walked once for those few.
        for eval in tx.evals_of_job(&key.namespace, &key.id) {
            if eval.status != EvalStatus::Pending || eval.triggered_by != EvalTrigger::MaxDisconnectTimeout {
                continue;
            }
            let returned = before.iter().find(|(alloc, _)| waits_on(alloc, &eval));
            if let Some((_, at)) = returned
                && !tx.allocs_of_job(&key.namespace, &key.id).any(|alloc| waits_on(alloc, &eval))
            {
                over.push(Evaluation {
                    status: EvalStatus::Canceled,
                    status_description: CALLED_OFF.into(),
                    modify_index: tx.index(),
                    modify_time: *at,
                    ..Evaluation::clone(&eval)
                });
            }
        }
        for eval in over {
            tx.put::<tables::Evals>(eval);
        }
    }
}
