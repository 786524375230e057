//! Compares a job that runs on every node with its allocations, one node at a time. What follows for the plan is
//! decided by the parent module.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    ALL_NODE_POOL, AllocClientStatus, AllocDesiredStatus, Allocation, Job, Node, NodeId, NodeStatus, Str, Time,
};
use songline_projections::State;

use crate::reconcile::{Tainted, is_expired, max_disconnect, ran_successfully, state_of};

/// An allocation that a node should have.
pub(super) struct Wanted {
    pub node: Arc<Node>,
    pub group: Str,
    pub name: Str,
    /// The ended or replaced allocation of the same name on this node.
    pub previous: Option<Arc<Allocation>>,
    /// Whether the plan stops the previous allocation for it.
    pub replaces: bool,
}

/// The differences between a job and its allocations.
#[derive(Default)]
pub(super) struct Diff {
    pub place: Vec<Wanted>,
    /// Allocations of another version of the job.
    pub update: Vec<Arc<Allocation>>,
    /// Allocations whose node came back, with the state that says so.
    pub reconnecting: Vec<Allocation>,
    pub disconnecting: Vec<Arc<Allocation>>,
    pub migrate: Vec<Arc<Allocation>>,
    pub stop: Vec<Arc<Allocation>>,
    pub lost: Vec<Arc<Allocation>>,
    pub ignored: Vec<Arc<Allocation>>,
}

/// Input of a comparison.
pub(super) struct Scope<'a> {
    pub view: &'a State,
    /// The job; `None` when it is stopped or purged.
    pub job: Option<&'a Arc<Job>>,
    /// Whether allocations that have ended stay done.
    pub sysbatch: bool,
    /// Ready nodes of the job's pool and datacenters.
    pub ready: &'a BTreeMap<NodeId, Arc<Node>>,
    pub tainted: &'a Tainted,
    pub now: Time,
}

/// Set of [`Diff`] that a live allocation belongs to.
enum Fate {
    Stop,
    Migrate,
    Lost,
    Disconnecting,
    Reconnecting,
    Update,
    Ignore,
}

impl Scope<'_> {
    pub fn diff(&self, allocs: &[Arc<Allocation>]) -> Diff {
        let names = self.names();
        let mut live: BTreeMap<NodeId, Vec<&Arc<Allocation>>> = BTreeMap::new();
        let mut ended: BTreeMap<(NodeId, &Str), &Arc<Allocation>> = BTreeMap::new();
        for alloc in allocs {
            let Some(node) = alloc.node_id else { continue };
            if !alloc.terminal() {
                live.entry(node).or_default().push(alloc);
                continue;
            }
            let newest = ended.entry((node, &alloc.name)).or_insert(alloc);
            if alloc.create_index > newest.create_index {
                *newest = alloc;
            }
        }
        let mut diff = Diff::default();
        let nodes: BTreeSet<NodeId> = live.keys().chain(self.ready.keys()).copied().collect();
        for id in nodes {
            let existing = live.get(&id).map(Vec::as_slice).unwrap_or_default();
            for alloc in existing {
                self.sort(alloc, &names, &mut diff);
            }
            // A node that is not ready takes no new allocation.
            let Some(node) = self.ready.get(&id) else { continue };
            for (name, group) in names.iter().filter(|(name, _)| existing.iter().all(|alloc| alloc.name != **name)) {
                self.missing(node, name, group, ended.get(&(id, name)).copied(), &mut diff);
            }
        }
        diff
    }

    /// The names of the allocations that each node should have, with their groups.
    fn names(&self) -> BTreeMap<Str, Str> {
        let mut names = BTreeMap::new();
        for (job, group) in self.job.iter().flat_map(|job| job.groups().map(move |group| (job, group))) {
            for number in 0..group.count.max(0) {
                names.insert(format!("{}.{}[{number}]", job.name, group.name).into(), group.name.clone());
            }
        }
        names
    }

    fn missing(&self, node: &Arc<Node>, name: &Str, group: &Str, ended: Option<&Arc<Allocation>>, diff: &mut Diff) {
        match ended {
            Some(ended) if self.sysbatch && self.is_of_other_version(ended) => diff.update.push(ended.clone()),
            Some(ended) if self.sysbatch => diff.ignored.push(ended.clone()),
            Some(_) | None => diff.place.push(Wanted {
                node: node.clone(),
                group: group.clone(),
                name: name.clone(),
                previous: ended.cloned(),
                replaces: false,
            }),
        }
    }

    fn sort(&self, alloc: &Arc<Allocation>, names: &BTreeMap<Str, Str>, diff: &mut Diff) {
        let set = match self.fate(alloc, names) {
            Fate::Stop => &mut diff.stop,
            Fate::Migrate => &mut diff.migrate,
            Fate::Lost => &mut diff.lost,
            Fate::Disconnecting => &mut diff.disconnecting,
            Fate::Update => &mut diff.update,
            Fate::Ignore => &mut diff.ignored,
            Fate::Reconnecting => {
                let mut row = Allocation::clone(alloc);
                row.alloc_states.get_or_insert_default().push(state_of(row.client_status, self.now));
                diff.reconnecting.push(row);
                return;
            }
        };
        set.push(alloc.clone());
    }

    /// Sorts one live allocation. The first rule that matches wins.
    fn fate(&self, alloc: &Allocation, names: &BTreeMap<Str, Str>) -> Fate {
        if !names.contains_key(&alloc.name) {
            return Fate::Stop;
        }
        if alloc.desired_transition.should_migrate() {
            return Fate::Migrate;
        }
        let status = alloc.client_status;
        let limit = max_disconnect(alloc);
        if let Some(limit) = limit {
            if alloc.needs_to_reconnect() && is_expired(alloc, limit, self.now) {
                return Fate::Lost;
            }
            if status == AllocClientStatus::Unknown && alloc.desired_status == AllocDesiredStatus::Run {
                return Fate::Ignore;
            }
        }
        let Some(node) = alloc.node_id else { return Fate::Ignore };
        match self.tainted.get(&node) {
            Some(tainted) => self.fate_on_tainted(alloc, tainted.as_deref()),
            None if limit.is_some() && status == AllocClientStatus::Running && alloc.needs_to_reconnect() => {
                Fate::Reconnecting
            }
            None => self.fate_on_untainted(alloc, node),
        }
    }

    /// Sorts an allocation on a node that is gone (`None`), unresponsive or draining.
    fn fate_on_tainted(&self, alloc: &Allocation, node: Option<&Node>) -> Fate {
        if self.sysbatch && ran_successfully(alloc) {
            return Fate::Ignore;
        }
        match node.map(|node| node.status) {
            Some(NodeStatus::Disconnected)
                if max_disconnect(alloc).is_some() && alloc.client_status == AllocClientStatus::Running =>
            {
                Fate::Disconnecting
            }
            None | Some(NodeStatus::Down) => Fate::Lost,
            // Allocations of a draining node wait for their mark.
            Some(NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected) => Fate::Ignore,
        }
    }

    fn fate_on_untainted(&self, alloc: &Allocation, node: NodeId) -> Fate {
        if !self.ready.contains_key(&node) {
            // Being ineligible keeps only new allocations away; a node of another pool or datacenter runs none.
            return if self.is_kept_by(node) { Fate::Ignore } else { Fate::Stop };
        }
        if self.is_of_other_version(alloc) { Fate::Update } else { Fate::Ignore }
    }

    /// Whether a node of the job's pool only is not ready now.
    fn is_kept_by(&self, node: NodeId) -> bool {
        let pool = self.job.map_or("", |job| job.node_pool.as_str());
        let in_pool = |node: &Node| pool.is_empty() || pool == ALL_NODE_POOL || node.node_pool == *pool;
        self.view.node(node).is_some_and(|node| !node.is_ready() && in_pool(node))
    }

    fn is_of_other_version(&self, alloc: &Allocation) -> bool {
        let index = |job: &Arc<Job>| job.job_modify_index;
        self.job.map(index) != alloc.job.as_ref().map(index)
    }
}
