//! Turns nodes' reports about their allocations into log entries: which reports count, and which evaluations follow.
//! The shell gathers the reports of many nodes into one entry.

use std::collections::BTreeSet;

use songline_commands::{ClientAlloc, UpdateAllocsFromClient};
use songline_model::{
    AllocClientStatus, Allocation, EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, Node, NodeId,
    NodeStatus, Time,
};
use songline_projections::State;

use crate::reschedule;

/// The refusal that a node gets which may not report now; `None` when it may. A node that is down or disconnected has
/// to send a heartbeat before its reports count.
pub fn refusal(node: &Node) -> Option<String> {
    match node.status {
        NodeStatus::Initializing | NodeStatus::Ready => None,
        NodeStatus::Down | NodeStatus::Disconnected => {
            Some(format!("node {} is not allowed to update allocs while in status {}", node.id, node.status))
        }
    }
}

/// The refusal when no report of `node` in the entry at `index` was taken; `None` when they were. `apply` decides, not
/// an earlier check: the node may have gone down between proposing and applying.
pub fn refused_at(view: &State, node: NodeId, index: u64) -> Option<String> {
    let Some(row) = view.node(node) else { return Some(format!("node {node} not found")) };
    if row.last_alloc_update_index >= index { None } else { refusal(row) }
}

/// The entry for these reports, and the number of dropped ones: a report counts only for an existing allocation of the
/// node that sent it. `fresh` makes the ids of the evaluations, at most one per job.
pub fn entry(
    view: &State,
    reports: impl IntoIterator<Item = ClientAlloc>,
    now: Time,
    mut fresh: impl FnMut() -> EvalId,
) -> (UpdateAllocsFromClient, u64) {
    let mut entry = UpdateAllocsFromClient::default();
    let mut seen = BTreeSet::new();
    let mut dropped = 0;
    for report in reports {
        let Some(stored) = view.alloc(report.id).filter(|alloc| alloc.node_id == Some(report.node_id)) else {
            dropped += 1;
            continue;
        };
        if let Some((trigger, kind, priority)) = trigger(view, stored, report.client_status, now)
            && seen.insert(stored.job_key())
        {
            entry.evals.push(evaluation(fresh(), stored.job_key(), trigger, kind, priority, now));
        }
        entry.allocs.push(ClientAlloc { modify_time: now, ..report });
    }
    (entry, dropped)
}

/// Trigger, job type and priority of the evaluation that follows from a report; `None`: none follows.
fn trigger(
    view: &State,
    stored: &Allocation,
    said: AllocClientStatus,
    now: Time,
) -> Option<(EvalTrigger, JobType, i64)> {
    let returning = stored.client_status == AllocClientStatus::Unknown;
    if !said.is_terminal() && !returning {
        return None;
    }
    let Some(job) = view.job(&stored.namespace, &stored.job_id) else {
        let own = stored.job.as_ref();
        let (kind, priority) = own.map_or((JobType::Service, 50), |job| (job.kind.clone(), job.priority));
        return Some((EvalTrigger::JobDeregister, kind, priority));
    };
    let about = |trigger| Some((trigger, job.kind.clone(), job.priority));
    if returning {
        return about(EvalTrigger::Reconnect);
    }
    let failed = said == AllocClientStatus::Failed && stored.followup_eval_id.is_none();
    if failed && reschedule::may_reschedule(stored, now) {
        return about(EvalTrigger::RetryFailedAlloc);
    }
    None
}

fn evaluation(id: EvalId, job: JobKey, trigger: EvalTrigger, kind: JobType, priority: i64, now: Time) -> Evaluation {
    Evaluation {
        id,
        namespace: job.namespace,
        priority,
        kind,
        triggered_by: trigger,
        job_id: job.id,
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    }
}

#[cfg(test)]
mod tests;
