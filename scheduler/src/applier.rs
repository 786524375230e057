//! Checks plans against the newest view and accepts, node by node, what still fits. Submitting plans and waiting for
//! entries is the shell's.

mod queue;
mod quota;
mod rejections;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_commands::ApplyPlan;
use songline_model::{
    AllocClientStatus, AllocId, Allocation, Amount, Eligibility, EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey,
    Node, NodeId, NodeStatus, Plan, PlanResult, Time,
};
use songline_projections::{State, Table};

pub use queue::Queue;
pub use rejections::{RejectionLimits, Rejections};

use crate::fit::allocs_fit;

/// The part of a plan that can be applied on `view`, and the nodes that refused their part, each with its reason. A
/// plan with `all_at_once` is dropped whole when one node refuses, and any plan whose part exceeds a quota.
pub fn evaluate(view: &State, plan: &Plan) -> (PlanResult, BTreeMap<NodeId, String>) {
    let mut result = PlanResult {
        deployment: plan.deployment.clone(),
        deployment_updates: plan.deployment_updates.clone(),
        ..PlanResult::default()
    };
    let mut refused = BTreeMap::new();
    let nodes: BTreeSet<_> = plan.node_update.keys().chain(plan.node_allocation.keys()).copied().collect();
    for id in nodes {
        if let Err(reason) = node_fits(view, plan, id) {
            refused.insert(id, reason);
            if plan.all_at_once {
                result = PlanResult::default();
                break;
            }
            continue;
        }
        if let Some(stops) = plan.node_update.get(&id) {
            result.node_update.insert(id, stops.clone());
        }
        if let Some(allocs) = plan.node_allocation.get(&id) {
            result.node_allocation.insert(id, allocs.clone());
        }
        if let Some(preempted) = plan.node_preemptions.get(&id) {
            let still =
                preempted.iter().filter(|preempt| view.alloc(preempt.id).is_some_and(|alloc| !alloc.terminal()));
            result.node_preemptions.insert(id, still.cloned().collect());
        }
    }
    let over_quota = quota::is_exceeded(view, plan, &result);
    if over_quota {
        result = PlanResult::default();
    }
    if over_quota || !refused.is_empty() {
        let mut decisive = vec![Table::Nodes, Table::Allocs];
        if over_quota {
            decisive.extend([Table::QuotaSpecs, Table::QuotaUsages, Table::Namespaces]);
        }
        result.refresh_index = decisive.into_iter().map(|table| view.table_index(table)).fold(1, u64::max);
        forget_unplaced_canaries(&mut result);
    }
    (result, refused)
}

/// Counts the refusals, and adds to the result the eligible nodes that were refused too often.
pub fn count_refusals(
    view: &State,
    refused: &BTreeMap<NodeId, String>,
    rejections: &mut Rejections,
    now: Time,
    result: &mut PlanResult,
) {
    let is_eligible = |node: &Node| node.scheduling_eligibility == Eligibility::Eligible;
    for id in refused.keys() {
        // A node that is gone cannot be changed, and one that is ineligible needs no change.
        if view.node(*id).is_some_and(|node| is_eligible(node)) && rejections.on_rejected(*id, now) {
            result.ineligible_nodes.push(*id);
        }
    }
}

/// Whether applying the result would leave the state as it is.
pub fn is_no_op(result: &PlanResult) -> bool {
    result.ineligible_nodes.is_empty()
        && result.node_update.is_empty()
        && result.node_allocation.is_empty()
        && result.deployment_updates.is_empty()
        && result.deployment.is_none()
}

/// The allocations of a result as the log carries them: times set and identities signed. A job that equals the plan's
/// is left out.
pub fn placed(
    plan: &Plan,
    result: &PlanResult,
    now: Time,
    mut sign: impl FnMut(&mut Allocation),
) -> Vec<Arc<Allocation>> {
    result.node_allocation.values().flatten().map(|alloc| stamped(alloc, plan, now, &mut sign)).collect()
}

/// The result as the scheduler that submitted the plan gets it, once the entry at `index` has applied it.
pub fn written(result: PlanResult, index: u64) -> PlanResult {
    let refresh_index = if result.refresh_index > 0 { result.refresh_index.max(index) } else { 0 };
    PlanResult { alloc_index: index, refresh_index, ..result }
}

/// The log entry that applies a result. `updated` are the rows that [`placed`] returned; `fresh_eval` makes ids for the
/// evaluations of jobs that lost allocations to preemption.
pub fn command(
    view: &State,
    plan: &Plan,
    result: &PlanResult,
    updated: Vec<Arc<Allocation>>,
    now: Time,
    mut fresh_eval: impl FnMut() -> EvalId,
) -> ApplyPlan {
    let preempted: Vec<_> = result.node_preemptions.values().flatten().cloned().collect();
    let losers: BTreeSet<JobKey> =
        preempted.iter().filter_map(|preempt| view.alloc(preempt.id)).map(|alloc| alloc.job_key()).collect();
    let preemption_evals = losers
        .into_iter()
        .filter_map(|key| view.job(&key.namespace, &key.id))
        .map(|job| Evaluation {
            id: fresh_eval(),
            namespace: job.namespace.clone(),
            priority: job.priority,
            kind: job.kind.clone(),
            triggered_by: EvalTrigger::Preemption,
            job_id: job.id.clone(),
            status: EvalStatus::Pending,
            create_time: now,
            modify_time: now,
            ..Evaluation::default()
        })
        .collect();
    ApplyPlan {
        job: plan.job.clone(),
        stopped: result.node_update.values().flatten().cloned().collect(),
        updated,
        preempted,
        deployment: result.deployment.clone(),
        deployment_updates: result.deployment_updates.clone(),
        eval_id: plan.eval_id,
        preemption_evals,
        ineligible_nodes: result.ineligible_nodes.clone(),
        keeps_transitions: true,
        updated_at: now,
    }
}

fn stamped(alloc: &Arc<Allocation>, plan: &Plan, now: Time, sign: &mut impl FnMut(&mut Allocation)) -> Arc<Allocation> {
    let mut row = (**alloc).clone();
    if row.create_time == Time::default() {
        row.create_time = now;
    }
    row.modify_time = now;
    if row.job.is_none() {
        row.job.clone_from(&plan.job);
    }
    sign(&mut row);
    if let (Some(own), Some(job)) = (&row.job, &plan.job)
        && (Arc::ptr_eq(own, job) || own.job_modify_index == job.job_modify_index && own.version == job.version)
    {
        row.job = None;
    }
    Arc::new(row)
}

fn node_fits(view: &State, plan: &Plan, id: NodeId) -> Result<(), String> {
    let Some(wanted) = plan.node_allocation.get(&id) else { return Ok(()) };
    let Some(node) = view.node(id) else { return Err("node does not exist".into()) };
    let known: Vec<Option<&Arc<Allocation>>> =
        wanted.iter().map(|alloc| view.alloc(alloc.id).filter(|known| known.node_id == Some(id))).collect();
    if wanted.iter().zip(&known).any(|(alloc, known)| known.is_some_and(|known| is_outdated(alloc, known, node))) {
        return Err("an allocation has changed since".into());
    }
    let takes_nothing =
        wanted.iter().zip(&known).all(|(alloc, known)| known.is_some_and(|known| takes_no_more(alloc, known)));
    match node.status {
        NodeStatus::Disconnected => {
            let said = wanted.iter().zip(&known).all(|(alloc, known)| {
                alloc.client_status == AllocClientStatus::Unknown
                    || known.is_some_and(|known| known.terminal()) && takes_nothing
            });
            return if said { Ok(()) } else { Err("node is disconnected and contains invalid updates".into()) };
        }
        NodeStatus::Ready => {}
        // Existing rows that keep their resources may still change: a follow-up evaluation is noted, or the alloc came
        // back.
        NodeStatus::Initializing | NodeStatus::Down if takes_nothing => return Ok(()),
        NodeStatus::Initializing | NodeStatus::Down => return Err("node is not ready for placements".into()),
    }
    if takes_nothing || known.iter().all(|known| known.is_some_and(|known| !known.terminal())) {
        return Ok(());
    }
    if node.scheduling_eligibility == Eligibility::Ineligible || node.drain_strategy.is_some() {
        return Err("node is not eligible".into());
    }
    resources_fit(view, plan, node, wanted)
}

/// Whether the plan's row would undo a change made after the plan: the servers stopped the allocation, or its node came
/// back.
fn is_outdated(alloc: &Allocation, known: &Allocation, node: &Node) -> bool {
    let revives = known.server_terminal() && !alloc.server_terminal();
    let unknown = AllocClientStatus::Unknown;
    let gives_up =
        alloc.client_status == unknown && known.client_status != unknown && node.status != NodeStatus::Disconnected;
    revives || gives_up
}

/// Whether the plan's row leaves the resources of the allocation unchanged.
fn takes_no_more(alloc: &Allocation, known: &Allocation) -> bool {
    alloc.allocated_resources == known.allocated_resources
}

fn resources_fit(view: &State, plan: &Plan, node: &Node, wanted: &[Arc<Allocation>]) -> Result<(), String> {
    let mut leaving: BTreeSet<AllocId> = wanted.iter().map(|alloc| alloc.id).collect();
    leaving.extend(plan.node_update.get(&node.id).into_iter().flatten().map(|stop| stop.id));
    leaving.extend(plan.node_preemptions.get(&node.id).into_iter().flatten().map(|preempt| preempt.id));
    let usage = view.usage_of_node(node.id);
    if usage.exclusive == 0 && !wanted.iter().any(|alloc| alloc.has_exclusive()) {
        // Without ports, cores and devices the sums decide, and the state has those.
        let left = leaving.iter().filter_map(|id| view.alloc(*id));
        let left = left.filter(|alloc| alloc.node_id == Some(node.id) && !alloc.terminal()).map(|alloc| alloc.amount());
        let taken = wanted.iter().filter(|alloc| !alloc.client_terminal()).map(|alloc| alloc.amount());
        let used = taken.fold(left.fold(usage.live, Amount::minus), Amount::plus);
        return used.exceeds(node.capacity()).map_or(Ok(()), |dimension| Err(dimension.to_owned()));
    }
    let staying = view.allocs_of_node(node.id).filter(|alloc| !alloc.terminal() && !leaving.contains(&alloc.id));
    let then: Vec<&Allocation> = staying.map(|alloc| &**alloc).chain(wanted.iter().map(|alloc| &**alloc)).collect();
    allocs_fit(node, then).map(|_| ())
}

fn forget_unplaced_canaries(result: &mut PlanResult) {
    let placed: BTreeSet<AllocId> = result.node_allocation.values().flatten().map(|alloc| alloc.id).collect();
    let Some(deployment) = &mut result.deployment else { return };
    for group in deployment.task_groups.iter_mut().flat_map(|groups| groups.values_mut()) {
        if let Some(canaries) = &mut group.placed_canaries {
            canaries.retain(|id| placed.contains(id));
        }
    }
}

#[cfg(test)]
mod tests;
