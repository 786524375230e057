//! What nodes report of their allocations, made ready for the log: whose word counts, and which evaluations follow from it.
//! Gathering the reports of many nodes into one entry is the shell's.

use std::collections::BTreeSet;

use songline_commands::{ClientAlloc, UpdateAllocsFromClient};
use songline_model::{
    AllocClientStatus, Allocation, EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, Node, NodeId, NodeStatus, Time,
};
use songline_projections::State;

use crate::reschedule;

/// Why a node may not report now, as it is told: `None` when it may. A node that was away has to show up before it is believed.
pub fn refusal(node: &Node) -> Option<String> {
    match node.status {
        NodeStatus::Initializing | NodeStatus::Ready => None,
        NodeStatus::Down | NodeStatus::Disconnected => {
            Some(format!("node {} is not allowed to update allocs while in status {}", node.id, node.status))
        }
    }
}

/// Why nothing that `node` reported in the entry at `index` was taken; `None` when it was. The entry decides, not whoever let it pass
/// before: the node may have been given up in between.
pub fn refused_at(view: &State, node: NodeId, index: u64) -> Option<String> {
    let Some(row) = view.node(node) else { return Some(format!("node {node} not found")) };
    if row.last_alloc_update_index >= index { None } else { refusal(row) }
}

/// The entry for these reports, and how many of them were dropped: nodes speak for their own allocations only, and not of such that are
/// gone. Each carries the node that sent it. `fresh` names the evaluations, of which a job has one at most.
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
        entry.allocs.push(ClientAlloc { modify_time: now.nanos(), ..report });
    }
    (entry, dropped)
}

/// Why a scheduler has to look because of a report, if it has to.
fn trigger(view: &State, stored: &Allocation, said: AllocClientStatus, now: Time) -> Option<(EvalTrigger, JobType, i64)> {
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
        create_time: now.nanos(),
        modify_time: now.nanos(),
        ..Evaluation::default()
    }
}

#[cfg(test)]
mod tests;
