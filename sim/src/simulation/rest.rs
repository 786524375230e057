//! A simulated cluster at rest: its jobs, tables and processes in the checker's form.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_lang::schedule::Schedule;
use songline_model::{
    AllocClientStatus, Allocation, Deployment, DeploymentStatus, EvalStatus, EvalTrigger, Evaluation, Job, JobType,
    Node, NodeStatus, Time,
};
use songline_projections::State;

use super::agent::NodeMachine;
use crate::check::{NodeRuns, OpenEnds, OpenEval, Outlook, Placed, Placements, Standing, Wanted};

/// The attribute by which jobs of the user choose their nodes.
const CLASS_TARGET: &str = "${node.class}";

/// The tables' and nodes' state for the checker.
pub fn placements(view: &State, nodes: &[Arc<NodeMachine>]) -> Placements {
    let wanted = view.jobs().map(|job| (job.id.to_string(), wanted(view, job)));
    let runs = |machine: &Arc<NodeMachine>| NodeRuns {
        node: machine.name().to_owned(),
        is_ready: view.node(machine.auth.id).is_some_and(|node| node.status == NodeStatus::Ready),
        runs: machine.processes.alive().into_iter().map(|(alloc, _)| alloc.to_string()).collect(),
    };
    Placements {
        wanted: wanted.collect(),
        allocs: view.allocs().map(|alloc| placed(view, alloc)).collect(),
        nodes: nodes.iter().map(runs).collect(),
    }
}

fn wanted(view: &State, job: &Job) -> Wanted {
    let of_groups = || job.task_groups.iter().flatten().map(|group| usize::try_from(group.count).unwrap_or(0)).sum();
    let count = match &job.kind {
        _ if job.stop || launches(job) => 0,
        JobType::System | JobType::SysBatch => view.nodes().filter(|node| suits(job, node)).count(),
        JobType::Service | JobType::Batch | JobType::Other(_) => of_groups(),
    };
    Wanted { count, may_lack: !has_fixed_point(job) || is_blocked(view, job) || has_failed(view, job) }
}

/// Whether the job runs only through its children.
fn launches(job: &Job) -> bool {
    job.is_periodic() || job.is_parameterized()
}

/// Whether the tables alone tell what the job should have. A node that comes has no evaluations of sysbatch jobs without
/// allocations there, as in Nomad: such a job runs there once it is registered again.
fn has_fixed_point(job: &Job) -> bool {
    !launches(job) && job.kind != JobType::SysBatch
}

/// Whether the node has the class that the job asks for.
fn suits(job: &Job, node: &Node) -> bool {
    let mut constraints = job.constraints.iter().flatten().filter(|constraint| constraint.l_target == CLASS_TARGET);
    constraints.all(|constraint| constraint.r_target == node.node_class)
}

fn is_blocked(view: &State, job: &Job) -> bool {
    view.evals_of_job(&job.namespace, &job.id).any(|eval| eval.status == EvalStatus::Blocked)
}

/// Whether the deployment of the job's present version failed, after which nothing more of it is placed.
fn has_failed(view: &State, job: &Job) -> bool {
    of_this_version(view, job).any(|row| row.status == DeploymentStatus::Failed)
}

/// The deployments of the job's present version.
pub fn of_this_version<'s>(view: &'s State, job: &'s Job) -> impl Iterator<Item = &'s Arc<Deployment>> {
    let is_of = |row: &&Arc<Deployment>| row.job_version == job.version && row.job_create_index == job.create_index;
    view.deployments_of_job(&job.namespace, &job.id).filter(is_of)
}

fn placed(view: &State, alloc: &Allocation) -> Placed {
    let job = view.job(&alloc.namespace, &alloc.job_id);
    let kind = job.map(|job| &job.kind);
    let standing = if alloc.client_status == AllocClientStatus::Unknown {
        Standing::Unknown
    } else if job.is_some_and(|job| is_done(job, alloc)) {
        Standing::Done
    } else if alloc.terminal() {
        Standing::Over
    } else if alloc.client_status == AllocClientStatus::Running {
        Standing::Runs
    } else {
        Standing::Awaited
    };
    let name = match kind {
        Some(JobType::System | JobType::SysBatch) => format!("{}@{}", alloc.name, alloc.node_name),
        Some(JobType::Service | JobType::Batch | JobType::Other(_)) | None => alloc.name.to_string(),
    };
    let (id, job, node) = (alloc.id.to_string(), alloc.job_id.to_string(), alloc.node_name.to_string());
    Placed { id, name, job, node, standing }
}

/// Whether the job wants nothing in the allocation's place: a batch job once it is complete in the present version, a
/// sysbatch job once it has ended in any way. A version that changes no task of a sysbatch job runs nothing again.
fn is_done(job: &Job, alloc: &Allocation) -> bool {
    let own = alloc.job.as_ref().filter(|own| own.create_index == job.create_index);
    match &job.kind {
        JobType::Batch => {
            alloc.client_status == AllocClientStatus::Complete && own.is_some_and(|own| own.version == job.version)
        }
        JobType::SysBatch => alloc.terminal() && own.is_some(),
        JobType::Service | JobType::System | JobType::Other(_) => false,
    }
}

/// Evaluations and deployments that are not over, and what the scheduler would do for each job with these tables.
pub fn open_ends(view: &State, now: Time) -> OpenEnds {
    let is_open = |eval: &Arc<Evaluation>| eval.status == EvalStatus::Pending;
    let open = |eval: Arc<Evaluation>| OpenEval {
        id: eval.id.to_string(),
        job: eval.job_id.to_string(),
        status: eval.status.to_string(),
    };
    // A deployment that waits for room goes on until its deadline, which is longer than any run.
    let waits = |row: &Deployment| view.job(&row.namespace, &row.job_id).is_some_and(|job| is_blocked(view, job));
    // Whether a deployment of several regions may wait is a question about all of them: see `check/regions.rs`.
    let active = view.deployments().filter(|row| row.is_active() && !row.is_multiregion && !waits(row));
    OpenEnds {
        evals: view.evals().filter(is_open).map(open).collect(),
        deployments: active.map(|row| (row.job_id.to_string(), row.status.to_string())).collect(),
        jobs: view.jobs().filter(|job| has_fixed_point(job)).map(|job| outlook(view, job, now)).collect(),
    }
}

fn outlook(view: &State, job: &Job, now: Time) -> Outlook {
    let eval = Evaluation {
        namespace: job.namespace.clone(),
        priority: job.priority,
        kind: job.kind.clone(),
        triggered_by: EvalTrigger::JobRegister,
        job_id: job.id.clone(),
        ..Evaluation::default()
    };
    let decision = songline_scheduler::schedule(view, &eval, 0, now);
    let plan = &decision.plan;
    let stopped = plan.node_update.values().map(Vec::len);
    let placed = plan.node_allocation.values().map(Vec::len);
    let evals = view.evals_of_job(&job.namespace, &job.id);
    // A job that runs on every node waits for room on nodes that suit it, and not for other nodes.
    let per_node = matches!(job.kind, JobType::System | JobType::SysBatch);
    let without_room = decision.failed.iter().filter(|(_, metric)| !per_node || metric.nodes_exhausted > 0);
    let reasons: BTreeSet<String> = evals
        .flat_map(|eval| {
            eval.failed_tg_allocs.iter().flat_map(|failed| failed.keys()).map(ToString::to_string).collect::<Vec<_>>()
        })
        .collect();
    Outlook {
        job: job.id.to_string(),
        changes: stopped.chain(placed).chain(plan.node_preemptions.values().map(Vec::len)).sum(),
        without_room: without_room.map(|(group, _)| group.to_string()).collect(),
        is_blocked: is_blocked(view, job),
        explained: reasons.into_iter().collect(),
    }
}

/// The periodic jobs whose next launch is more than `late_secs_max` late: id and time of the launch. Those that skip
/// launches while a child runs are left out.
pub fn late_launches(view: &State, now: Time, late_secs_max: i64) -> Vec<(String, i64)> {
    let next = |job: &Arc<Job>| {
        let periodic =
            job.periodic.as_ref().filter(|periodic| job.is_periodic_active() && !periodic.prohibit_overlap)?;
        let launched = view.periodic_launch(&job.namespace, &job.id).map_or(Time::default(), |row| row.launch);
        let next = Schedule::of(periodic).next(launched.max(job.submit_time))?;
        (next.secs() + late_secs_max < now.secs()).then(|| (job.id.to_string(), next.secs()))
    };
    view.jobs().filter_map(next).collect()
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
