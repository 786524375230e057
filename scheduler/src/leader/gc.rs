//! Garbage collection: ended evaluations with their allocations, dead jobs, old deployments, nodes that stay down,
//! empty CSI plugins, expired tokens, and unused root keys when an operator asks. Abandoned claims on volumes are
//! released by the volume watcher.
//!
//! Rows carry indexes but retention is configured as ages; a small table of (time, index) pairs translates.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use songline_commands::{
    Command, DeleteCsiPlugin, DeleteDeployments, DeleteRootKey, DeregisterJobs, DeregisterNodes, ReapEvals,
};
use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, Dur, EvalId, Evaluation, Job, JobKey, JobStatus,
    JobType, NodeStatus, Time,
};
use songline_projections::State;

use super::{root_keys, tokens};

/// Most rows that one entry deletes.
const ROWS_MAX: usize = 7281;
/// Least time between two entries of the time table.
const GRANULARITY: Dur = Dur::from_mins(5);
/// Age up to which the time table keeps its entries.
const KEPT: Dur = Dur::from_hours(72);

/// Least ages of rows before they are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcAges {
    /// Evaluations of services and system jobs.
    pub eval: Dur,
    /// Evaluations of batch jobs.
    pub batch_eval: Dur,
    /// Jobs, from their creation on.
    pub job: Dur,
    /// Nodes that are down.
    pub node: Dur,
    /// Deployments.
    pub deployment: Dur,
    /// Expired ACL tokens, from their creation on.
    pub acl_token: Dur,
    /// CSI volumes whose abandoned claims are released, from their creation on.
    pub csi_volume: Dur,
    /// Empty CSI plugins, from their creation on.
    pub csi_plugin: Dur,
}

impl Default for GcAges {
    fn default() -> Self {
        Self {
            eval: Dur::from_hours(1),
            batch_eval: Dur::from_hours(24),
            job: Dur::from_hours(4),
            node: Dur::from_hours(24),
            deployment: Dur::from_hours(1),
            acl_token: Dur::from_hours(1),
            csi_volume: Dur::from_mins(5),
            csi_plugin: Dur::from_hours(1),
        }
    }
}

/// Highest indexes of rows that are old enough: create indexes of jobs, ACL tokens, CSI volumes and plugins, modify
/// indexes of other rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutoffs {
    eval: u64,
    batch_eval: u64,
    job: u64,
    node: u64,
    deployment: u64,
    acl_token: u64,
    global_acl_token: u64,
    csi_volume: u64,
    csi_plugin: u64,
    /// Unused root keys are deleted whatever their age. Otherwise `root_keys` deletes them by age.
    root_keys: bool,
}

impl Cutoffs {
    /// Every row is old enough: a forced collection.
    pub const ALL: Cutoffs = Cutoffs {
        eval: u64::MAX,
        batch_eval: u64::MAX,
        job: u64::MAX,
        node: u64::MAX,
        deployment: u64::MAX,
        acl_token: u64::MAX,
        global_acl_token: u64::MAX,
        csi_volume: u64::MAX,
        csi_plugin: u64::MAX,
        root_keys: true,
    };

    /// The same without global tokens, which only their authoritative region deletes.
    #[must_use]
    pub fn without_global_tokens(self) -> Self {
        Self { global_acl_token: 0, ..self }
    }

    /// Highest create index of the CSI volumes whose abandoned claims are to be released.
    pub fn csi_volume(&self) -> u64 {
        self.csi_volume
    }
}

/// Maps times to indexes of the log.
#[derive(Debug, Default)]
pub struct TimeTable {
    known: VecDeque<(Time, u64)>,
}

impl TimeTable {
    /// Records that the log is at `index` now. Ignored within 5 minutes of the last record.
    pub fn witness(&mut self, index: u64, now: Time) {
        if self.known.back().is_some_and(|(at, _)| now.since(*at) < GRANULARITY) {
            return;
        }
        self.known.push_back((now, index));
        while self.known.front().is_some_and(|(at, _)| now.since(*at) > KEPT) {
            self.known.pop_front();
        }
    }

    /// Index at the last record at or before `at`; 0 when `at` is before the first kept record.
    pub fn index_at(&self, at: Time) -> u64 {
        self.known.iter().rev().find(|(known, _)| *known <= at).map_or(0, |(_, index)| *index)
    }

    /// The cutoffs for these ages at `now`.
    pub fn cutoffs(&self, ages: &GcAges, now: Time) -> Cutoffs {
        let before = |age: Dur| self.index_at(Time::from_nanos(now.nanos() - age.nanos()));
        Cutoffs {
            eval: before(ages.eval),
            batch_eval: before(ages.batch_eval),
            job: before(ages.job),
            node: before(ages.node),
            deployment: before(ages.deployment),
            acl_token: before(ages.acl_token),
            global_acl_token: before(ages.acl_token),
            csi_volume: before(ages.csi_volume),
            csi_plugin: before(ages.csi_plugin),
            root_keys: false,
        }
    }
}

/// The commands that delete every row that is old enough and not needed, in the order in which they must be applied.
pub fn collect(view: &State, cutoffs: &Cutoffs, now: Time, job_versions_max: u64) -> Vec<Command> {
    let mut found = Garbage::default();
    // In the first hours of a cluster nothing is old enough, and the scans of all jobs and evaluations find nothing.
    if cutoffs.job > 0 {
        jobs(view, cutoffs, now, &mut found);
    }
    if cutoffs.eval.max(cutoffs.batch_eval) > 0 {
        evals(view, cutoffs, now, &mut found);
    }
    let mut commands = Vec::new();
    let mut reap = ReapEvals::default();
    for alloc in found.allocs {
        reap.allocs.push(alloc);
        flush(&mut reap, &mut commands);
    }
    for eval in found.evals {
        reap.evals.push(eval);
        flush(&mut reap, &mut commands);
    }
    if !reap.evals.is_empty() || !reap.allocs.is_empty() {
        commands.push(reap.into());
    }
    let purged: Vec<_> = found.jobs.into_iter().collect();
    for page in purged.chunks(ROWS_MAX) {
        let jobs = page.iter().cloned().map(|job| (job, true)).collect();
        commands
            .push(DeregisterJobs { jobs, evals: Vec::new(), submit_time: now, versions_max: job_versions_max }.into());
    }
    let old_deployments: Vec<_> = view
        .deployments()
        .filter(|deployment| deployment.modify_index <= cutoffs.deployment && !deployment.is_active())
        .filter(|deployment| view.allocs_of_deployment(deployment.id).all(|alloc| alloc.terminal()))
        .map(|deployment| deployment.id)
        .collect();
    for page in old_deployments.chunks(ROWS_MAX) {
        commands.push(DeleteDeployments { ids: page.to_vec() }.into());
    }
    let silent: Vec<_> = view
        .nodes()
        .filter(|node| node.status == NodeStatus::Down && node.modify_index <= cutoffs.node)
        .filter(|node| view.allocs_of_node(node.id).all(|alloc| alloc.terminal()))
        .map(|node| node.id)
        .collect();
    for page in silent.chunks(ROWS_MAX) {
        commands.push(DeregisterNodes { node_ids: page.to_vec() }.into());
    }
    let empty = view.csi_plugins().filter(|plugin| plugin.is_empty() && plugin.create_index <= cutoffs.csi_plugin);
    commands.extend(empty.map(|plugin| DeleteCsiPlugin { id: plugin.id.clone() }.into()));
    commands.extend(tokens::collect(view, [cutoffs.acl_token, cutoffs.global_acl_token], now));
    if cutoffs.root_keys {
        let unused = root_keys::unused(view).map(|row| row.meta.key_id);
        commands.extend(unused.map(|key_id| DeleteRootKey { key_id, unused_only: true }.into()));
    }
    commands
}

#[derive(Default)]
struct Garbage {
    jobs: BTreeSet<JobKey>,
    evals: BTreeSet<EvalId>,
    allocs: BTreeSet<AllocId>,
}

fn flush(reap: &mut ReapEvals, commands: &mut Vec<Command>) {
    if reap.evals.len() + reap.allocs.len() >= ROWS_MAX {
        commands.push(std::mem::take(reap).into());
    }
}

/// Collects dead jobs. A job goes together with all its evaluations, or not at all.
fn jobs(view: &State, cutoffs: &Cutoffs, now: Time, found: &mut Garbage) {
    for job in view.jobs().filter(|job| may_go(job) && job.create_index <= cutoffs.job) {
        let mut evals = BTreeMap::new();
        for eval in view.evals_of_job(&job.namespace, &job.id) {
            evals.insert(eval.id, eval_garbage(view, &eval, cutoffs.job, true, now));
        }
        if evals.values().all(|(whole, _)| *whole) {
            found.jobs.insert(job.key());
            for (eval, (_, allocs)) in evals {
                found.evals.insert(eval);
                found.allocs.extend(allocs);
            }
        }
    }
}

fn evals(view: &State, cutoffs: &Cutoffs, now: Time, found: &mut Garbage) {
    for eval in view.evals() {
        let cutoff = if eval.kind == JobType::Batch { cutoffs.batch_eval } else { cutoffs.eval };
        let (whole, allocs) = eval_garbage(view, &eval, cutoff, false, now);
        if whole {
            found.evals.insert(eval.id);
        }
        found.allocs.extend(allocs);
    }
}

fn may_go(job: &Job) -> bool {
    if job.is_periodic() || job.is_parameterized() {
        return job.stop;
    }
    job.status == JobStatus::Dead && (job.stop || matches!(job.kind, JobType::Batch | JobType::SysBatch))
}

/// Whether the evaluation can be deleted, and the allocations of it that can be.
fn eval_garbage(view: &State, eval: &Evaluation, cutoff: u64, with_job: bool, now: Time) -> (bool, Vec<AllocId>) {
    if !eval.status.is_terminal() || eval.modify_index > cutoff {
        return (false, Vec::new());
    }
    let job = view.job(&eval.namespace, &eval.job_id);
    let allocs: Vec<_> = view.allocs_of_eval(eval.id).collect();
    // The latest allocations of a batch job that is still registered stay: without them the job would run again.
    let runs_once = matches!(eval.kind, JobType::Batch | JobType::SysBatch);
    let keep_latest = runs_once && job.is_some_and(|job| job.status != JobStatus::Dead || !(job.stop || with_job));
    let old: Vec<_> = allocs
        .iter()
        .filter(|alloc| match job.filter(|_| keep_latest) {
            Some(job) => alloc.create_index < job.job_modify_index && alloc.modify_index <= cutoff && alloc.terminal(),
            None => alloc_may_go(alloc, job.map(|job| &**job), cutoff, now),
        })
        .map(|alloc| alloc.id)
        .collect();
    (old.len() == allocs.len(), old)
}

fn alloc_may_go(alloc: &Allocation, job: Option<&Job>, cutoff: u64, now: Time) -> bool {
    if !alloc.terminal() || alloc.modify_index > cutoff || alloc.client_status == AllocClientStatus::Running {
        return false;
    }
    let Some(job) = job.filter(|job| !job.stop && job.status != JobStatus::Dead) else { return true };
    if alloc.desired_status == AllocDesiredStatus::Stop || alloc.client_status != AllocClientStatus::Failed {
        return true;
    }
    let Some(policy) = job.group(&alloc.task_group).and_then(|group| group.reschedule_policy.as_ref()) else {
        return true;
    };
    if (policy.attempts == 0 && !policy.unlimited) || alloc.next_allocation.is_some() {
        return true;
    }
    let last = alloc
        .reschedule_tracker
        .as_ref()
        .and_then(|tracker| tracker.events.as_ref()?.last().map(|event| event.reschedule_time));
    match last {
        Some(at) if !policy.unlimited => now.since(at) > policy.interval,
        _ => false,
    }
}
