//! Compares a job with its allocations: those to place, stop, update, and evaluate again later. `generic` decides on
//! nodes for placements; this module looks at nodes only for whether they respond, drain or are gone.

mod canaries;
mod deploy;
mod followup;
mod group;
mod names;
mod reconnect;
mod set;
mod surplus;

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocId, AllocState, AllocStateField, Allocation, Deployment, DeploymentStatusUpdate,
    DesiredUpdates, EvalId, Evaluation, Job, Node, NodeId, StopAlloc, Str, TaskGroup, Time,
};

pub(crate) use deploy::running;
pub use names::NameIndex;
pub use set::{Set, Tainted};
pub(crate) use set::{is_expired, max_disconnect, ran_successfully};

use crate::seed::Seed;

/// Descriptions of stopped allocations, as users read them on the wire.
pub mod why {
    /// There are too many allocations, or the job is stopped.
    pub const NOT_NEEDED: &str = "alloc not needed due to job update";
    /// The allocation that it replaced came back.
    pub const RECONNECTED: &str = "alloc not needed due to disconnected client reconnect";
    /// The allocation moves to another node.
    pub const MIGRATING: &str = "alloc is being migrated";
    /// An allocation of the new version replaces it.
    pub const UPDATING: &str = "alloc is being updated due to job update";
    /// Its node is down or gone.
    pub const LOST: &str = "alloc is lost since its node is down";
    /// Its node is disconnected and may come back.
    pub const UNKNOWN: &str = "alloc is unknown since its node is disconnected";
    /// Its node drains, or an operator stopped it; the job has no allocation elsewhere in its place (system jobs).
    pub const TAINTED: &str = "alloc not needed as node is tainted";
    /// It failed, and another allocation replaces it.
    pub const RESCHEDULED: &str = "alloc was rescheduled because it failed";
}

/// Input of a reconciliation.
pub struct Reconciler<'a> {
    /// The current job; `None` when it was purged.
    pub job: Option<&'a Arc<Job>>,
    /// The evaluation that runs.
    pub eval: &'a Evaluation,
    /// Whether allocations that completed successfully stay done (batch jobs).
    pub batch: bool,
    /// The job's latest deployment.
    pub deployment: Option<&'a Deployment>,
    /// All allocations of the job, of every version and incarnation.
    pub allocs: Vec<Arc<Allocation>>,
    /// Nodes of these allocations that are gone, unresponsive or draining.
    pub tainted: &'a Tainted,
    /// Whether every server understands clients that disconnect.
    pub disconnects: bool,
    /// The time of the evaluation's run.
    pub now: Time,
}

/// Update that an allocation needs after a change of its job.
#[derive(Debug, Clone)]
pub enum Update {
    /// No update.
    Ignore,
    /// Update without a restart, to this row.
    InPlace(Box<Allocation>),
    /// Replacement by a new allocation.
    Destructive,
}

/// Decides the update of an allocation, given its group in the current job.
pub type UpdateOf<'a> = dyn FnMut(&Arc<Allocation>, &TaskGroup) -> Update + 'a;

/// An allocation to place.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Its task group.
    pub group: Str,
    /// Its name.
    pub name: Str,
    /// The allocation that it replaces.
    pub previous: Option<Arc<Allocation>>,
    /// Whether it replaces a failed or disconnected allocation, which counts as a reschedule attempt.
    pub rescheduling: bool,
    /// Whether it replaces a lost allocation.
    pub lost: bool,
    /// Whether it is a canary or replaces one.
    pub canary: bool,
    /// The group waits for the promotion of its canaries, so the allocation runs an older version of the job: this one
    /// or one between it and the current one.
    pub older: Option<u64>,
    /// Description for stopping the replaced allocation; that is stopped only when a node is found.
    pub stop_previous: Option<&'static str>,
}

/// An allocation to stop, whether or not a replacement finds a node.
#[derive(Debug, Clone)]
pub struct Stop {
    /// The allocation.
    pub alloc: Arc<Allocation>,
    /// The reason.
    pub description: &'static str,
    /// Client status that the servers set in place of the node.
    pub client_status: Option<AllocClientStatus>,
    /// Follow-up evaluation of the allocation.
    pub followup: Option<EvalId>,
}

impl Stop {
    /// The stop as a plan carries it. A client status set by the servers is recorded in the alloc's states.
    pub fn planned(&self, now: Time) -> StopAlloc {
        StopAlloc {
            id: self.alloc.id,
            desired_description: self.description.into(),
            client_status: self.client_status,
            followup_eval_id: self.followup,
            append_state: self
                .client_status
                .filter(|status| is_said_by_servers(*status))
                .map(|status| state_of(status, now)),
            modify_time: now,
        }
    }
}

fn is_said_by_servers(status: AllocClientStatus) -> bool {
    matches!(status, AllocClientStatus::Lost | AllocClientStatus::Unknown)
}

/// The alloc state for a client status that the servers set at `now`.
pub fn state_of(status: AllocClientStatus, now: Time) -> AllocState {
    AllocState { field: AllocStateField::ClientStatus, value: status.as_str().into(), time: now }
}

/// The row of an allocation whose node has just disconnected.
pub(crate) fn unknown(alloc: &Allocation, now: Time) -> Allocation {
    let mut update = alloc.clone();
    update.client_status = AllocClientStatus::Unknown;
    update.client_description = why::UNKNOWN.into();
    update.alloc_states.get_or_insert_default().push(state_of(AllocClientStatus::Unknown, now));
    update
}

/// Result of a reconciliation.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// A deployment to create, or to write again in full.
    pub deployment: Option<Deployment>,
    /// Deployments that change their status.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// New allocations to place.
    pub place: Vec<Placement>,
    /// Destructive updates: the replaced allocation is stopped when a node is found.
    pub destructive: Vec<Placement>,
    /// In-place updates.
    pub in_place: Vec<Allocation>,
    /// Allocations to stop.
    pub stop: Vec<Stop>,
    /// Rows that only get the id of a follow-up evaluation.
    pub attribute_updates: BTreeMap<AllocId, Allocation>,
    /// Allocations whose node just disconnected.
    pub disconnect_updates: BTreeMap<AllocId, Allocation>,
    /// Allocations whose node came back.
    pub reconnect_updates: BTreeMap<AllocId, Allocation>,
    /// Counts per group.
    pub desired: BTreeMap<Str, DesiredUpdates>,
    /// Evaluations to create that run later.
    pub followups: Vec<Evaluation>,
    /// Numbers of names in use, per group.
    pub names: BTreeMap<Str, NameIndex>,
}

impl Reconciler<'_> {
    /// Runs the reconciliation.
    pub fn run(self, update_of: &mut UpdateOf<'_>, seed: &mut Seed) -> Reconciled {
        Run::new(&self, update_of, seed).all()
    }
}

/// A reconciliation in progress.
struct Run<'a, 'u> {
    input: &'a Reconciler<'a>,
    update_of: &'a mut UpdateOf<'u>,
    seed: &'a mut Seed,
    /// The current deployment: the stored one or a new one. `None`: there is none, or the stored one is over.
    deployment: Option<Deployment>,
    /// The stored deployment when it is over: successful, or of another version of the job.
    old_deployment: Option<Deployment>,
    paused: bool,
    failed: bool,
    out: Reconciled,
}

impl<'a, 'u> Run<'a, 'u> {
    fn new(input: &'a Reconciler<'a>, update_of: &'a mut UpdateOf<'u>, seed: &'a mut Seed) -> Self {
        Self {
            input,
            update_of,
            seed,
            deployment: None,
            old_deployment: None,
            paused: false,
            failed: false,
            out: Reconciled::default(),
        }
    }

    fn all(mut self) -> Reconciled {
        let mut groups: BTreeMap<Str, Set> = BTreeMap::new();
        for group in self.input.job.iter().flat_map(|job| job.groups()) {
            groups.insert(group.name.clone(), Set::default());
        }
        for alloc in &self.input.allocs {
            groups.entry(alloc.task_group.clone()).or_default().insert(alloc.clone());
        }
        self.take_up_deployment();
        let wanted = self.input.job.filter(|job| !job.stop);
        let Some(job) = wanted else {
            for (name, set) in groups {
                self.stop_group(&name, set.without(|alloc| alloc.terminal()));
            }
            return self.out;
        };
        let mut complete = true;
        for (name, set) in groups {
            match job.group(&name) {
                Some(group) => complete &= self.group(job, group, set),
                None => self.stop_group(&name, set),
            }
        }
        self.finish_deployment(job, complete);
        self.out
    }

    /// Stops all allocations of a group that the job no longer has, ended ones included, or the allocations of a stopped
    /// job that have not ended.
    fn stop_group(&mut self, name: &Str, set: Set) {
        let count = set.len() as u64;
        // Allocations that an earlier plan stopped for this reason are not stopped again.
        let is_done = |alloc: &Allocation| alloc.server_terminal() && alloc.desired_description == why::NOT_NEEDED;
        let sorted = set.without(|alloc| is_done(alloc)).by_taint(self.input);
        for set in [&sorted.untainted, &sorted.migrate, &sorted.disconnecting, &sorted.reconnecting, &sorted.ignored] {
            self.stop_all(set, None, why::NOT_NEEDED);
        }
        self.stop_all(&sorted.lost, Some(AllocClientStatus::Lost), why::LOST);
        self.out.desired.entry(name.clone()).or_default().stop += count;
    }

    fn stop_all(&mut self, set: &Set, client_status: Option<AllocClientStatus>, description: &'static str) {
        for alloc in set.iter() {
            self.stop(alloc, client_status, description);
        }
    }

    fn stop(&mut self, alloc: &Arc<Allocation>, client_status: Option<AllocClientStatus>, description: &'static str) {
        self.out.stop.push(Stop { alloc: alloc.clone(), description, client_status, followup: None });
    }
}

/// Nodes of these allocations that are gone (`None`), unresponsive or draining. Other nodes are not listed.
pub fn tainted<'a>(allocs: &[Arc<Allocation>], node: impl Fn(NodeId) -> Option<&'a Arc<Node>>) -> Tainted {
    let mut tainted = Tainted::new();
    for id in allocs.iter().filter_map(|alloc| alloc.node_id) {
        if tainted.contains_key(&id) {
            continue;
        }
        match node(id) {
            None => {
                tainted.insert(id, None);
            }
            Some(node) if node.status.is_unresponsive() || node.drain_strategy.is_some() => {
                tainted.insert(id, Some(node.clone()));
            }
            Some(_) => {}
        }
    }
    tainted
}

#[cfg(test)]
mod tests;
