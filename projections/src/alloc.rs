//! Allocations: client updates from nodes, and desired transitions set by the servers. Placing and stopping is in
//! `plan`.

mod disconnected;

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use serde::Serialize;
use songline_commands::{ClientAlloc, SetDesiredTransitions, UpdateAllocsFromClient};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, Allocation, DeploymentId, DesiredTransition, EvalId, Job,
    JobKey, NodeId, Time,
};

use crate::job::status::{self, After};
use crate::job::summary;
use crate::key_set::KeySet;
use crate::prefix::IdPrefix;
use crate::rejected::Rejected;
use crate::runs::Runs;
use crate::state::{Indexes, State};
use crate::table::{Kept, Rules, Table, tables};
use crate::tx::Tx;
use crate::{csi, deployment, eval, node};

/// Numbers of a job's allocs and evals, total and live. Maintained, because every write of an alloc or eval derives
/// its job's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) allocs: u64,
    pub(crate) allocs_live: u64,
    pub(crate) evals: u64,
    pub(crate) evals_live: u64,
}

/// An allocation in the list of its node, with what is told to the node at every change of the list. The rows of a list
/// are spread over the memory, and reading them all takes most of the time of telling it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The allocation.
    pub row: Arc<Allocation>,
    /// The row's `alloc_modify_index`: index of the last change by a server.
    pub alloc_modify_index: u64,
    /// Whether the allocation replaces another one.
    pub has_previous: bool,
}

impl Listed {
    fn of(row: &Arc<Allocation>) -> Self {
        Self {
            row: Arc::clone(row),
            alloc_modify_index: row.alloc_modify_index,
            has_previous: row.previous_allocation.is_some(),
        }
    }
}

/// Number of other allocs of its job that a new alloc is compared with, to share equal resources.
const SIBLINGS_MAX: usize = 4;

/// The object that `theirs` shares, unless `own` shares it already.
fn other<'a, T>(own: &Option<Arc<T>>, theirs: &'a Option<Arc<T>>) -> Option<&'a Arc<T>> {
    theirs.as_ref().filter(|theirs| own.as_ref().is_some_and(|own| !Arc::ptr_eq(own, theirs)))
}

impl Rules<AllocId, Allocation> for tables::Allocs {
    fn key(row: &Allocation) -> AllocId {
        row.id
    }

    #[cfg(test)]
    fn in_story(row: &Allocation) -> String {
        format!("alloc:{}", crate::story::name(row.id.as_bytes()))
    }

    /// The digest includes the job by reference: the job version has a row of its own, and hashing it for each alloc
    /// would cost more than all the rest.
    fn encode(row: &Allocation, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct JobRef<'a>(&'a str, &'a str, u64, u64, u64);
        match &row.job {
            None => crate::digest::encode(row, out),
            Some(job) => {
                crate::digest::encode(&without_job(row), out);
                crate::digest::encode(
                    &JobRef(&job.namespace, &job.id, job.create_index, job.version, job.job_modify_index),
                    out,
                );
            }
        }
    }

    fn job(row: &Arc<Allocation>) -> Option<&Arc<Job>> {
        row.job.as_ref()
    }

    fn store(row: &Allocation, out: &mut Vec<u8>) {
        crate::digest::encode(&without_job(row), out);
    }

    fn load(stored: &[u8], job: Option<Arc<Job>>) -> Result<Arc<Allocation>, rmp_serde::decode::Error> {
        Ok(Arc::new(Allocation { job, ..rmp_serde::from_slice(stored)? }))
    }

    /// Shares equal resources and equal counts of available nodes: the allocs of a group mostly have the same ones,
    /// and the resources take more memory than the rest of the row.
    fn share(state: &State, mut row: Arc<Allocation>) -> Arc<Allocation> {
        let siblings = state.by.allocs_by_job.get(&row.job_key()).into_iter().flat_map(OrdMap::values);
        let is_twin = |sibling: &&Arc<Allocation>| {
            sibling.task_group == row.task_group && sibling.allocated_resources == row.allocated_resources
        };
        let Some(twin) = siblings.take(SIBLINGS_MAX).find(is_twin) else { return row };
        if let Some(theirs) = other(&row.allocated_resources, &twin.allocated_resources) {
            Arc::make_mut(&mut row).allocated_resources = Some(Arc::clone(theirs));
        }
        // A metric that others hold, too, is not copied for this.
        if let Some(own) = Arc::get_mut(&mut row).and_then(|row| Arc::get_mut(row.metrics.as_mut()?))
            && let Some(their) = &twin.metrics
            && own.nodes_available == their.nodes_available
            && let Some(theirs) = other(&own.nodes_available, &their.nodes_available)
        {
            own.nodes_available = Some(Arc::clone(theirs));
        }
        row
    }

    fn reindex(state: &mut State, before: Option<&Arc<Allocation>>, after: Option<&Arc<Allocation>>) {
        let by = &mut state.by;
        crate::index::move_in_runs(&mut by.allocs_by_create, before.map(created), after.map(created));
        crate::index::move_in_sets(&mut by.allocs_by_eval, before.and_then(of_eval), after.and_then(of_eval));
        crate::index::move_in_sets(
            &mut by.allocs_by_deployment,
            before.and_then(of_deployment),
            after.and_then(of_deployment),
        );
        reindex_others(by, before, after);
    }

    fn index_row(state: &mut State, row: &Arc<Allocation>) {
        reindex_others(&mut state.by, None, Some(row));
    }

    fn index_row_again<Old: Kept<AllocId, Allocation>>(
        state: &mut State,
        key: &AllocId,
        old: &Old,
        row: &Arc<Allocation>,
    ) {
        let old = old.row(state, key);
        reindex_others(&mut state.by, Some(&old), Some(row));
    }
}

fn created(row: &Arc<Allocation>) -> (u64, AllocId) {
    (row.create_index, row.id)
}

fn of_eval(row: &Arc<Allocation>) -> Option<(EvalId, AllocId)> {
    Some((row.eval_id?, row.id))
}

fn of_deployment(row: &Arc<Allocation>) -> Option<(DeploymentId, AllocId)> {
    Some((row.deployment_id?, row.id))
}

/// Builds the indexes in create order and by evaluation and deployment after a checkpoint was read: its rows come in
/// another order, and inserting them one by one would copy a set each time.
pub(crate) fn index_loaded(state: &mut State) {
    let rows = || state.tables.allocs.iter();
    let mut in_create_order: Vec<_> = rows().map(|row| (created(row), ())).collect();
    in_create_order.sort_unstable();
    state.by.allocs_by_create = Runs::from_sorted(&in_create_order);
    state.by.allocs_by_eval = crate::index::sets(rows().filter_map(of_eval));
    state.by.allocs_by_deployment = crate::index::sets(rows().filter_map(of_deployment));
}

/// Updates the indexes that `index_loaded` leaves alone.
fn reindex_others(by: &mut Indexes, before: Option<&Arc<Allocation>>, after: Option<&Arc<Allocation>>) {
    nest(
        &mut by.allocs_by_job,
        before.map(|row| (row.job_key(), row.id)),
        after.map(|row| (row.job_key(), row.id, Arc::clone(row))),
    );
    nest(
        &mut by.allocs_by_node,
        before.and_then(|row| Some((row.node_id?, row.id))),
        after.and_then(|row| Some((row.node_id?, row.id, Listed::of(row)))),
    );
    node::usage::count(&mut by.usage_by_node, before, after);
    let signed_by = |row: &Arc<Allocation>| row.signing_key_id.filter(|_| row.needs_signing_key());
    crate::index::move_count(&mut by.allocs_by_signing_key, before.and_then(signed_by), after.and_then(signed_by));
    crate::quota::count_alloc(by, before, after);
    let live = |row: &Arc<Allocation>| (row.job_key(), !row.terminal());
    let (left, entered) = (before.map(live), after.map(live));
    if left != entered {
        if let Some((key, live)) = left {
            crate::index::count(&mut by.job_counts, &key, |counts| {
                counts.allocs -= 1;
                counts.allocs_live -= u64::from(live);
            });
        }
        if let Some((key, live)) = entered {
            crate::index::count(&mut by.job_counts, &key, |counts| {
                counts.allocs += 1;
                counts.allocs_live += u64::from(live);
            });
        }
    }
}

/// The row without its job, which is stored and hashed by reference.
pub(crate) fn without_job(row: &Allocation) -> Allocation {
    Allocation { job: None, ..row.clone() }
}

/// Moves a row within a nested index.
fn nest<K: Ord + Clone, V: Clone>(
    map: &mut OrdMap<K, OrdMap<AllocId, V>>,
    before: Option<(K, AllocId)>,
    after: Option<(K, AllocId, V)>,
) {
    if let Some((key, id)) = before
        && after.as_ref().is_none_or(|(to, into, _)| *to != key || *into != id)
        && let Some(rows) = map.get_mut(&key)
    {
        rows.remove(&id);
        if rows.is_empty() {
            map.remove(&key);
        }
    }
    if let Some((key, id, row)) = after {
        match map.get_mut(&key) {
            Some(rows) => {
                rows.insert(id, row);
            }
            None => {
                map.insert(key, OrdMap::unit(id, row));
            }
        }
    }
}

impl State {
    /// The allocation with this id.
    pub fn alloc(&self, id: AllocId) -> Option<&Arc<Allocation>> {
        self.tables.allocs.get(&id)
    }

    /// All allocations, oldest first.
    pub fn allocs(&self) -> impl DoubleEndedIterator<Item = &Arc<Allocation>> {
        self.by.allocs_by_create.iter().filter_map(|((_, id), ())| self.alloc(*id))
    }

    /// Allocations in a range of (create index, id), oldest first.
    pub fn allocs_in(
        &self,
        range: impl std::ops::RangeBounds<(u64, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Allocation>> {
        self.by.allocs_by_create.range(range).filter_map(|((_, id), ())| self.alloc(*id))
    }

    /// The allocations of a job of any version, by id. They outlive a purged job.
    pub fn allocs_of_job(&self, namespace: &str, id: &str) -> impl DoubleEndedIterator<Item = &Arc<Allocation>> {
        self.by.allocs_by_job.get(&JobKey::new(namespace, id)).into_iter().flat_map(|rows| rows.values())
    }

    /// The allocations of a node, by id.
    pub fn allocs_of_node(&self, id: NodeId) -> impl DoubleEndedIterator<Item = &Arc<Allocation>> {
        self.list_of_node(id).map(|(_, listed)| &listed.row)
    }

    /// The allocations of a node, by id, with what the node is told of each.
    pub fn list_of_node(&self, id: NodeId) -> impl DoubleEndedIterator<Item = (AllocId, &Listed)> {
        self.by.allocs_by_node.get(&id).into_iter().flat_map(|rows| rows.iter().map(|(id, listed)| (*id, listed)))
    }

    /// The allocations that an evaluation placed, by id.
    pub fn allocs_of_eval(&self, id: EvalId) -> impl DoubleEndedIterator<Item = &Arc<Allocation>> {
        self.by.allocs_by_eval.get(&id).into_iter().flat_map(KeySet::iter).filter_map(|id| self.alloc(*id))
    }

    /// The allocations of a deployment, by id.
    pub fn allocs_of_deployment(&self, id: DeploymentId) -> impl DoubleEndedIterator<Item = &Arc<Allocation>> {
        self.by.allocs_by_deployment.get(&id).into_iter().flat_map(KeySet::iter).filter_map(|id| self.alloc(*id))
    }

    /// The allocations whose id has this prefix, by id.
    pub fn allocs_with_prefix<'s>(
        &'s self,
        prefix: &IdPrefix,
    ) -> impl DoubleEndedIterator<Item = &'s Arc<Allocation>> + use<'s> {
        let (low, high) = prefix.bounds();
        self.tables.allocs.range(AllocId::from_bytes(low)..=AllocId::from_bytes(high))
    }
}

/// Applies nodes' reports of their allocs. Reports for unknown allocs, or for those of another node, are dropped; so
/// are all reports of a node that is `down` or `disconnected`, which has to send a heartbeat first. The sender sees
/// from the node's row that its reports were not applied.
pub(crate) fn update_from_client(tx: &mut Tx<'_>, cmd: &UpdateAllocsFromClient) -> Result<(), Rejected> {
    let disconnected: BTreeSet<NodeId> =
        cmd.allocs.iter().map(|update| update.node_id).filter(|id| is_disconnected(tx, *id)).collect();
    let heard: Vec<&ClientAlloc> = cmd.allocs.iter().filter(|update| !disconnected.contains(&update.node_id)).collect();
    let mut jobs = BTreeSet::new();
    let mut came_back = Vec::new();
    for update in &heard {
        let Some(stored) = tx.alloc(update.id).filter(|stored| stored.node_id == Some(update.node_id)).cloned() else {
            continue;
        };
        let merged = merge_client(&stored, update, tx.index());
        if stored.client_status == AllocClientStatus::Unknown && merged.client_status != AllocClientStatus::Unknown {
            came_back.push((Arc::clone(&stored), update.modify_time));
        }
        jobs.insert(merged.job_key());
        write(tx, merged, Some(&stored))?;
    }
    if !heard.is_empty() {
        tx.bump(Table::Allocs);
    }
    disconnected::call_off_timeouts(tx, &came_back);
    status::refresh(tx, jobs, After::Anything);
    for id in heard.iter().map(|update| update.node_id).collect::<BTreeSet<NodeId>>() {
        node::told_of_allocs(tx, id);
    }
    eval::upsert_all(tx, &cmd.evals)
}

fn is_disconnected(tx: &Tx<'_>, id: NodeId) -> bool {
    tx.node(id).is_some_and(|node| node.status.is_unresponsive())
}

fn merge_client(stored: &Allocation, update: &ClientAlloc, index: u64) -> Allocation {
    let mut row = stored.clone();
    row.client_status = update.client_status;
    row.client_description = update.client_description.clone();
    row.task_states.clone_from(&update.task_states);
    row.network_status = update.network_status.clone().map(Arc::new);
    row.modify_index = index;
    row.modify_time = update.modify_time;
    row.deployment_status = match (&stored.deployment_status, &update.deployment_status) {
        (kept, None) => kept.clone(),
        (None, Some(told)) => Some(Arc::new(AllocDeploymentStatus { modify_index: index, ..told.clone() })),
        (Some(kept), Some(told)) if told.healthy.is_some() && told.healthy != kept.healthy => {
            let (healthy, timestamp) = (told.healthy, told.timestamp);
            Some(Arc::new(AllocDeploymentStatus { healthy, timestamp, modify_index: index, canary: kept.canary }))
        }
        (Some(kept), Some(_)) => Some(Arc::clone(kept)),
    };
    row
}

/// Writes an alloc and all that depends on it: its deployment's counters, its job's summary, its CSI plugin. The
/// caller refreshes the job's status.
pub(crate) fn write(tx: &mut Tx<'_>, mut alloc: Allocation, before: Option<&Allocation>) -> Result<(), Rejected> {
    deployment::count_alloc(tx, &mut alloc, before);
    summary::count_alloc(tx, &alloc, before)?;
    let alloc = Arc::new(alloc);
    tx.put::<tables::Allocs>(Arc::clone(&alloc));
    csi::plugin::alloc_written(tx, &alloc);
    Ok(())
}

pub(crate) fn set_transitions(tx: &mut Tx<'_>, cmd: &SetDesiredTransitions) -> Result<(), Rejected> {
    for (id, transition) in &cmd.allocs {
        set_transition(tx, *id, transition);
    }
    tx.bump(Table::Allocs);
    // Does not refresh the jobs' statuses, as in the reference: the evals lead to plans, which do.
    eval::upsert_rows(tx, &cmd.evals);
    Ok(())
}

/// Sets the transition on all allocs of the currently registered job, not on those of a purged job of the same id.
pub(crate) fn set_transition_of_job(tx: &mut Tx<'_>, key: &JobKey, transition: &DesiredTransition) {
    let create_index = tx.job_by_key(key).map(|job| job.create_index);
    let ids: Vec<AllocId> = tx
        .allocs_of_job(&key.namespace, &key.id)
        .filter(|alloc| alloc.job.as_ref().map(|job| job.create_index) == create_index)
        .map(|alloc| alloc.id)
        .collect();
    for id in ids {
        set_transition(tx, id, transition);
    }
    tx.bump(Table::Allocs);
}

fn set_transition(tx: &mut Tx<'_>, id: AllocId, transition: &DesiredTransition) {
    let Some(stored) = tx.alloc(id) else {
        return;
    };
    let mut row = Allocation::clone(stored);
    row.desired_transition.merge(transition);
    row.modify_index = tx.index();
    row.alloc_modify_index = tx.index();
    tx.put::<tables::Allocs>(row);
}

/// Gives an alloc the index of the entry, as if the servers had changed it.
pub(crate) fn renew(tx: &mut Tx<'_>, id: AllocId) {
    let Some(stored) = tx.alloc(id) else {
        return;
    };
    let row = Allocation { modify_index: tx.index(), alloc_modify_index: tx.index(), ..Allocation::clone(stored) };
    tx.put::<tables::Allocs>(row);
}

/// Sets an alloc's health as judged by an operator or the leader, not by its node.
pub(crate) fn set_health(tx: &mut Tx<'_>, stored: &Allocation, healthy: bool, at: Time) -> Result<(), Rejected> {
    let canary = stored.is_canary();
    let status =
        AllocDeploymentStatus { healthy: Some(healthy), timestamp: Some(at), canary, modify_index: tx.index() };
    let row = Allocation { deployment_status: Some(Arc::new(status)), modify_index: tx.index(), ..stored.clone() };
    write(tx, row, Some(stored))
}

#[cfg(test)]
mod tests;
