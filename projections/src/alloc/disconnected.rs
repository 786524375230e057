//! Allocations that are reported again after their node was disconnected: the evaluations for their disconnect timeout
//! are cancelled. The scheduler decides which of these allocations continue.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocClientStatus, Allocation, EvalStatus, EvalTrigger, Evaluation, JobKey, Time};

use crate::table::tables;
use crate::tx::Tx;

const CALLED_OFF: &str = "allocs reconnected";

/// Time of the disconnect timeout (`max_client_disconnect`); `None` if no timeout runs for the allocation.
fn limit(alloc: &Allocation) -> Option<Time> {
    let waits = alloc.client_status == AllocClientStatus::Unknown && !alloc.server_terminal();
    Some(alloc.last_unknown().filter(|_| waits)?.plus(alloc.group()?.max_client_disconnect?))
}

/// Whether the evaluation is for this allocation's timeout: it is the follow-up evaluation, or, if another one took
/// that field, it waits until the same time.
fn waits_on(alloc: &Allocation, eval: &Evaluation) -> bool {
    limit(alloc).is_some_and(|limit| alloc.followup_eval_id == Some(eval.id) || eval.wait_until == Some(limit))
}

/// Cancels the timeout evaluations of reconnected allocations; `before` has their earlier rows, each with the time of
/// the report. An evaluation stays while another allocation of the job waits for it. Call after all rows of the entry
/// are written.
pub(super) fn call_off_timeouts(tx: &mut Tx<'_>, before: &[(Arc<Allocation>, Time)]) {
    let mut jobs: BTreeMap<JobKey, Vec<&(Arc<Allocation>, Time)>> = BTreeMap::new();
    for row in before {
        jobs.entry(row.0.job_key()).or_default().push(row);
    }
    for (key, before) in jobs {
        let mut over = Vec::new();
        // A job has few timeouts but maybe many evaluations and allocations: the evaluations are walked once, the
        // allocations once for each timeout of a reconnected one.
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
