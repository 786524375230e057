//! A simulated cluster at rest: its jobs, tables and processes in the checker's form.

use std::sync::Arc;

use songline_model::{AllocClientStatus, Allocation, NodeStatus};
use songline_projections::State;

use super::agent::NodeMachine;
use crate::check::{NodeRuns, Placed, Placements, Standing};

/// The tables' and nodes' state for the checker.
pub fn placements(view: &State, nodes: &[Arc<NodeMachine>]) -> Placements {
    let count = |group: &songline_model::TaskGroup| usize::try_from(group.count).unwrap_or(0);
    let wanted = view.jobs().map(|job| {
        let sum = job.task_groups.iter().flatten().map(count).sum();
        (job.id.to_string(), if job.stop { 0 } else { sum })
    });
    let runs = |machine: &Arc<NodeMachine>| NodeRuns {
        node: machine.name().to_owned(),
        is_ready: view.node(machine.auth.id).is_some_and(|node| node.status == NodeStatus::Ready),
        runs: machine.processes.alive().into_iter().map(|(alloc, _)| alloc.to_string()).collect(),
    };
    Placements {
        wanted: wanted.collect(),
        allocs: view.allocs().map(|alloc| placed(alloc)).collect(),
        nodes: nodes.iter().map(runs).collect(),
    }
}

fn placed(alloc: &Allocation) -> Placed {
    let standing = if alloc.client_status == AllocClientStatus::Unknown {
        Standing::Unknown
    } else if alloc.terminal() {
        Standing::Over
    } else if alloc.client_status == AllocClientStatus::Running {
        Standing::Runs
    } else {
        Standing::Awaited
    };
    Placed {
        id: alloc.id.to_string(),
        name: alloc.name.to_string(),
        job: alloc.job_id.to_string(),
        node: alloc.node_name.to_string(),
        standing,
    }
}

/// The rows as text, for analysing a failure.
pub fn told(view: &State, nodes: &[Arc<NodeMachine>]) -> Vec<String> {
    let mut lines = Vec::new();
    for machine in nodes {
        let status = view
            .node(machine.auth.id)
            .map(|node| (node.status, node.scheduling_eligibility, node.drain_strategy.is_some()));
        lines.push(format!("  {} {status:?} runs {:?}", machine.name(), machine.processes.alive()));
    }
    for alloc in view.allocs() {
        let (name, node) = (&alloc.name, &alloc.node_name);
        let states: Vec<_> = alloc.alloc_states.iter().flatten().map(|state| state.value.as_str()).collect();
        let version = alloc.job.as_ref().map_or(0, |job| job.version);
        let previous = alloc.previous_allocation.map_or_else(|| "nobody".to_owned(), |id| id.to_string());
        let eval = alloc.eval_id.map_or_else(|| "nobody".to_owned(), |id| id.to_string());
        let healthy = alloc.deployment_status.as_ref().and_then(|status| status.healthy);
        let asked = alloc.desired_transition.should_reschedule();
        lines.push(format!(
            "  {} {name} v{version} on {node}: {} {} {states:?} {} made {} by {eval} after {previous}, healthy {healthy:?}, to be replaced {asked}, \
             follow-up {:?}, changed {}",
            alloc.id, alloc.desired_status, alloc.client_status, alloc.desired_description, alloc.create_index, alloc.followup_eval_id, alloc.modify_index
        ));
    }
    for eval in view.evals() {
        lines.push(format!(
            "  eval {} of {} at {}: {} {} {} wait {:?}",
            eval.id,
            eval.job_id,
            eval.modify_index,
            eval.triggered_by,
            eval.status,
            eval.status_description,
            eval.wait_until
        ));
    }
    for deployment in view.deployments() {
        let (id, job, version, status) =
            (deployment.id, &deployment.job_id, deployment.job_version, &deployment.status);
        lines.push(format!(
            "  deployment {id} of {job} v{version} at {}: {status} {}",
            deployment.modify_index, deployment.status_description
        ));
    }
    for job in view.jobs() {
        lines.push(format!("  job {} v{} stop {}", job.id, job.version, job.stop));
    }
    lines
}
