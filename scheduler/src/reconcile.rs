//! Comparing what a job wants with what there is: what to place, to stop, to change, and what to look at again later. Where things are
//! placed is decided in `generic`; nothing here looks at nodes beyond whether they answer.

mod canaries;
mod deploy;
mod followup;
mod group;
mod names;
mod reconnect;
mod set;

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocId, AllocState, AllocStateField, Allocation, Deployment, DeploymentStatusUpdate, DesiredUpdates, EvalId,
    Evaluation, Job, Node, NodeId, StopAlloc, Str, TaskGroup, Time,
};

pub use names::NameIndex;
pub use set::{Set, Tainted};

use crate::seed::Seed;

/// Why allocations are stopped, as people read it on the wire.
pub mod why {
    /// There are too many, or the job is gone.
    pub const NOT_NEEDED: &str = "alloc not needed due to job update";
    /// The one it replaced came back.
    pub const RECONNECTED: &str = "alloc not needed due to disconnected client reconnect";
    /// It moves to another node.
    pub const MIGRATING: &str = "alloc is being migrated";
    /// Another version takes its place.
    pub const UPDATING: &str = "alloc is being updated due to job update";
    /// Its node does not answer.
    pub const LOST: &str = "alloc is lost since its node is down";
    /// Its node does not answer, and may come back.
    pub const UNKNOWN: &str = "alloc is unknown since its node is disconnected";
    /// Another one takes its place because it failed.
    pub const RESCHEDULED: &str = "alloc was rescheduled because it failed";
}

/// What a reconciliation looks at.
pub struct Reconciler<'a> {
    /// The job as it is wanted; `None` when it was purged.
    pub job: Option<&'a Arc<Job>>,
    /// The evaluation behind it.
    pub eval: &'a Evaluation,
    /// Whether work that ran to its end stays done.
    pub batch: bool,
    /// The job's latest deployment.
    pub deployment: Option<&'a Deployment>,
    /// All allocations of the job, of every version and incarnation.
    pub allocs: Vec<Arc<Allocation>>,
    /// Nodes of these allocations that are gone, do not answer, or drain.
    pub tainted: &'a Tainted,
    /// Whether every server understands clients that disconnect.
    pub disconnects: bool,
    /// The time of the evaluation's run.
    pub now: Time,
}

/// What becomes of an allocation whose job changed.
#[derive(Debug, Clone)]
pub enum Update {
    /// Nothing.
    Ignore,
    /// It changes without a restart, to this.
    InPlace(Box<Allocation>),
    /// Another one takes its place.
    Destructive,
}

/// Decides what becomes of an allocation, given its group in the job as it is wanted.
pub type UpdateOf<'a> = dyn FnMut(&Arc<Allocation>, &TaskGroup) -> Update + 'a;

/// An allocation to place.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Of which group.
    pub group: Str,
    /// Its name.
    pub name: Str,
    /// The one it takes over from.
    pub previous: Option<Arc<Allocation>>,
    /// Whether it takes over from a failed or disconnected one, which counts as an attempt.
    pub rescheduling: bool,
    /// Whether it takes over from a lost one.
    pub lost: bool,
    /// Whether it is the first of a new version, or takes over from one.
    pub canary: bool,
    /// Stops the previous one with this description, but only when a node is found.
    pub stop_previous: Option<&'static str>,
}

/// An allocation to stop whatever else happens.
#[derive(Debug, Clone)]
pub struct Stop {
    /// Which.
    pub alloc: Arc<Allocation>,
    /// Why.
    pub description: &'static str,
    /// What the servers say of it in its node's place.
    pub client_status: Option<AllocClientStatus>,
    /// Who looks at it again.
    pub followup: Option<EvalId>,
}

impl Stop {
    /// The plan's form of it. What the servers decided about it is kept in its history.
    pub fn planned(&self, now: Time) -> StopAlloc {
        StopAlloc {
            id: self.alloc.id,
            desired_description: self.description.into(),
            client_status: self.client_status,
            followup_eval_id: self.followup,
            append_state: self.client_status.filter(|status| is_said_by_servers(*status)).map(|status| state_of(status, now)),
            modify_time: now.nanos(),
        }
    }
}

fn is_said_by_servers(status: AllocClientStatus) -> bool {
    matches!(status, AllocClientStatus::Lost | AllocClientStatus::Unknown)
}

/// The history's entry for a status that the servers gave at `now`.
pub fn state_of(status: AllocClientStatus, now: Time) -> AllocState {
    AllocState { field: AllocStateField::ClientStatus, value: status.as_str().into(), time: now }
}

/// What a reconciliation found.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// A deployment to create, or to write again in full.
    pub deployment: Option<Deployment>,
    /// Deployments that change their status.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// To place.
    pub place: Vec<Placement>,
    /// To replace: the previous one is stopped when a node is found.
    pub destructive: Vec<Placement>,
    /// Changed without a restart.
    pub in_place: Vec<Allocation>,
    /// To stop.
    pub stop: Vec<Stop>,
    /// Rows that only learn of a follow-up evaluation.
    pub attribute_updates: BTreeMap<AllocId, Allocation>,
    /// Allocations whose node just disconnected.
    pub disconnect_updates: BTreeMap<AllocId, Allocation>,
    /// Allocations whose node came back.
    pub reconnect_updates: BTreeMap<AllocId, Allocation>,
    /// Counts per group.
    pub desired: BTreeMap<Str, DesiredUpdates>,
    /// To look again later.
    pub followups: Vec<Evaluation>,
    /// Names in use, per group.
    pub names: BTreeMap<Str, NameIndex>,
}

impl Reconciler<'_> {
    /// Compares.
    pub fn run(self, update_of: &mut UpdateOf<'_>, seed: &mut Seed) -> Reconciled {
        Run::new(&self, update_of, seed).all()
    }
}

/// One reconciliation on its way.
struct Run<'a, 'u> {
    input: &'a Reconciler<'a>,
    update_of: &'a mut UpdateOf<'u>,
    seed: &'a mut Seed,
    /// The deployment that goes on: the stored one or a new one. `None`: there is none, or it belongs to the past.
    deployment: Option<Deployment>,
    /// The stored one when it belongs to the past.
    old_deployment: Option<Deployment>,
    paused: bool,
    failed: bool,
    out: Reconciled,
}

impl<'a, 'u> Run<'a, 'u> {
    fn new(input: &'a Reconciler<'a>, update_of: &'a mut UpdateOf<'u>, seed: &'a mut Seed) -> Self {
        Self { input, update_of, seed, deployment: None, old_deployment: None, paused: false, failed: false, out: Reconciled::default() }
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
                self.stop_group(&name, set);
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

    /// Stops all that is left of a group that nobody wants any more.
    fn stop_group(&mut self, name: &Str, set: Set) {
        let set = set.without(|alloc| alloc.terminal());
        let count = set.len() as u64;
        let sorted = set.by_taint(self.input);
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

/// What is wrong with the nodes of these allocations: `None` for a node that is gone. Nodes that are well are not listed.
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
