//! Evaluations: written, deleted, indexed. The leader's eval broker decides which of them schedulers work on.

mod delete;
mod leave;
mod list;
mod packed;

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use songline_commands::{ReapEvals, UpdateEvals};
use songline_lang::bexpr::Filter;
use songline_model::{EvalId, EvalStatus, Evaluation, JobKey, NodeId, Secret};

use crate::job::status::{self, After};
use crate::job::summary;
use crate::key_set::KeySet;
use crate::prefix::IdPrefix;
use crate::rejected::Rejected;
use crate::runs::Runs;
use crate::state::{Indexes, State};
use crate::table::{Kept, Rules, tables};
use crate::tx::Tx;

pub use delete::is_safe_to_delete;
pub(crate) use delete::{Scan, is_paused};
pub use list::EvalList;
#[cfg(test)]
pub(crate) use packed::PACKED_BYTES;
pub(crate) use packed::{EvalPlace, PackedEval};

fn job_key(eval: &Evaluation) -> JobKey {
    JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() }
}

impl Rules<EvalId, Evaluation> for tables::Evals {
    fn key(row: &Evaluation) -> EvalId {
        row.id
    }

    #[cfg(test)]
    fn in_story(row: &Evaluation) -> String {
        format!("eval:{}", crate::story::name(row.id.as_bytes()))
    }

    fn reindex(state: &mut State, before: Option<&Arc<Evaluation>>, after: Option<&Arc<Evaluation>>) {
        let packed = after.map(|row| PackedEval::new(state, row));
        let by = &mut state.by;
        let created = |row: &Arc<Evaluation>| (row.create_index, row.id);
        if let Some(gone) = before.map(created).filter(|key| after.map(created) != Some(*key)) {
            by.evals_by_create.remove(&gone);
        }
        if let (Some(row), Some(packed)) = (after, packed) {
            by.evals_by_create.insert(created(row), packed);
        }
        let (left, entered) =
            (before.map(|row| (row.status, created(row))), after.map(|row| (row.status, created(row))));
        if left != entered {
            if let Some((status, key)) = left {
                by.evals_by_status[status as usize].remove(&key);
            }
            if let Some((status, key)) = entered {
                by.evals_by_status[status as usize].insert(key, ());
            }
        }
        reindex_links(by, before, after);
    }

    fn reindex_gone(state: &mut State, gone: &[Arc<Evaluation>]) {
        leave::all(&mut state.by, gone);
    }

    fn index_row(state: &mut State, row: &Arc<Evaluation>) {
        let packed = PackedEval::new(state, row);
        state.by.evals_loaded.push(((row.create_index, row.id), packed));
        reindex_links(&mut state.by, None, Some(row));
    }

    fn index_row_again<Old: Kept<EvalId, Evaluation>>(
        state: &mut State,
        key: &EvalId,
        _old: &Old,
        row: &Arc<Evaluation>,
    ) {
        if let Some(at) = state.by.evals_loaded.iter().rposition(|((_, id), _)| id == key) {
            let (_, packed) = state.by.evals_loaded.swap_remove(at);
            reindex_links(&mut state.by, Some(&packed.row(key)), None);
        }
        Self::index_row(state, row);
    }
}

/// Builds the indexes in create order after a checkpoint was read: its rows come in another order, and inserting them
/// one by one would rebuild a run each time.
pub(crate) fn index_loaded(state: &mut State) {
    let mut created = std::mem::take(&mut state.by.evals_loaded);
    created.sort_unstable_by_key(|(key, _)| *key);
    for &status in EvalStatus::ALL {
        let of_status: Vec<_> =
            created.iter().filter(|(_, packed)| packed.status() == status).map(|(key, _)| (*key, ())).collect();
        state.by.evals_by_status[status as usize] = Runs::from_sorted(&of_status);
    }
    state.by.evals_by_create = Runs::from_sorted(&created);
}

/// Updates the indexes of an evaluation, except those in create order.
fn reindex_links(by: &mut Indexes, before: Option<&Arc<Evaluation>>, after: Option<&Arc<Evaluation>>) {
    let of_node = |row: &Arc<Evaluation>| Some((row.node_id?, row.id));
    crate::index::move_in_sets(&mut by.evals_by_node, before.and_then(of_node), after.and_then(of_node));
    let of_job = |row: &Arc<Evaluation>| (job_key(row), (row.create_index, row.id));
    let (left, entered) = (before.map(of_job), after.map(of_job));
    if left != entered {
        if let Some((job, key)) = &left {
            leave_job(&mut by.evals_by_job, job, &[*key]);
        }
        if let Some((job, key)) = &entered {
            enter_job(&mut by.evals_by_job, job, *key);
        }
    }
    let blocked = |row: &Arc<Evaluation>| (row.status == EvalStatus::Blocked).then(|| (job_key(row), row.id));
    crate::index::move_key(&mut by.blocked_evals, before.and_then(blocked), after.and_then(blocked));
    let live = |of_job: (JobKey, (u64, EvalId)), row: Option<&Arc<Evaluation>>| {
        (of_job.0, row.is_some_and(|row| !row.status.is_terminal()))
    };
    let (left, entered) = (left.map(|job| live(job, before)), entered.map(|job| live(job, after)));
    if left != entered {
        if let Some((key, live)) = left {
            crate::index::count(&mut by.job_counts, &key, |counts| {
                counts.evals -= 1;
                counts.evals_live -= u64::from(live);
            });
        }
        if let Some((key, live)) = entered {
            crate::index::count(&mut by.job_counts, &key, |counts| {
                counts.evals += 1;
                counts.evals_live += u64::from(live);
            });
        }
    }
}

type ByJob = OrdMap<Arc<JobKey>, KeySet<(u64, EvalId)>>;

/// Removes evaluations from the set of their job; `keys` are in create order.
fn leave_job(by_job: &mut ByJob, job: &JobKey, keys: &[(u64, EvalId)]) {
    if let Some(evals) = by_job.get_mut(job) {
        evals.remove_sorted(keys);
        if evals.is_empty() {
            by_job.remove(job);
        }
    }
}

fn enter_job(by_job: &mut ByJob, job: &JobKey, key: (u64, EvalId)) {
    match by_job.get_mut(job) {
        Some(evals) => {
            evals.insert(key);
        }
        None => {
            by_job.insert(Arc::new(job.clone()), KeySet::unit(key));
        }
    }
}

impl State {
    /// The evaluation with this id.
    pub fn eval(&self, id: EvalId) -> Option<Arc<Evaluation>> {
        self.packed_eval(id).map(|packed| packed.row(&id))
    }

    /// The evaluation with this id in packed form.
    pub(crate) fn packed_eval(&self, id: EvalId) -> Option<&PackedEval> {
        let place = self.tables.evals.get(&id)?;
        self.by.evals_by_create.get(&(place.create_index(), id))
    }

    /// Whether the evaluation with this id exists.
    pub fn has_eval(&self, id: EvalId) -> bool {
        self.tables.evals.get(&id).is_some()
    }

    /// Number of evaluations in these namespaces that match the filter. An evaluation on which the filter fails is not
    /// counted.
    pub fn count_evals(&self, filter: Option<&Filter>, in_namespace: impl Fn(&str) -> bool) -> usize {
        let passes = |((_, id), packed): &&((u64, EvalId), PackedEval)| {
            in_namespace(&packed.job().namespace)
                && filter.is_none_or(|filter| filter.matches_fields(&packed::Looked::new(*id, packed)).unwrap_or(false))
        };
        self.by.evals_by_create.iter().filter(passes).count()
    }

    /// All evaluations, oldest first.
    pub fn evals(&self) -> impl DoubleEndedIterator<Item = Arc<Evaluation>> {
        self.by.evals_by_create.iter().map(|((_, id), packed)| packed.row(id))
    }

    /// Evaluations in a range of (create index, id), oldest first.
    pub fn evals_in(
        &self,
        range: impl std::ops::RangeBounds<(u64, EvalId)>,
    ) -> impl DoubleEndedIterator<Item = Arc<Evaluation>> {
        self.by.evals_by_create.range(range).map(|((_, id), packed)| packed.row(id))
    }

    /// The evaluations of a job, oldest first. They outlive a purged job.
    pub fn evals_of_job(&self, namespace: &str, id: &str) -> impl DoubleEndedIterator<Item = Arc<Evaluation>> {
        let of_job = self.by.evals_by_job.get(&JobKey::new(namespace, id));
        of_job.into_iter().flat_map(|evals| evals.iter()).filter_map(|(_, id)| self.eval(*id))
    }

    /// The evaluations that a change of this node caused, by id.
    pub fn evals_of_node(&self, node: NodeId) -> impl Iterator<Item = Arc<Evaluation>> {
        let of_node = self.by.evals_by_node.get(&node);
        of_node.into_iter().flat_map(|evals| evals.iter()).filter_map(|id| self.eval(*id))
    }

    /// The blocked evaluations of a job, by id.
    pub fn blocked_evals_of_job(&self, namespace: &str, id: &str) -> impl DoubleEndedIterator<Item = Arc<Evaluation>> {
        let key = JobKey::new(namespace, id);
        let range = (key.clone(), EvalId::NIL)..=(key, EvalId::from_bytes([0xff; 16]));
        self.by.blocked_evals.range(range).filter_map(|(_, id)| self.eval(*id))
    }

    /// All blocked evaluations, by job and id.
    pub fn blocked_evals(&self) -> impl DoubleEndedIterator<Item = Arc<Evaluation>> {
        self.by.blocked_evals.iter().filter_map(|(_, id)| self.eval(*id))
    }

    /// The evaluations whose id has this prefix, by id.
    pub fn evals_with_prefix<'s>(
        &'s self,
        prefix: &IdPrefix,
    ) -> impl DoubleEndedIterator<Item = Arc<Evaluation>> + use<'s> {
        let (low, high) = prefix.bounds();
        self.tables
            .evals
            .0
            .range(EvalId::from_bytes(low)..=EvalId::from_bytes(high))
            .map(|(id, entry)| entry.kept.row(self, id))
    }
}

pub(crate) fn update(tx: &mut Tx<'_>, cmd: &UpdateEvals) -> Result<(), Rejected> {
    upsert_all(tx, &cmd.evals)
}

/// Writes evaluations and refreshes the statuses of their jobs.
pub(crate) fn upsert_all(tx: &mut Tx<'_>, evals: &[Evaluation]) -> Result<(), Rejected> {
    upsert_rows(tx, evals);
    let jobs: BTreeSet<JobKey> = evals.iter().map(job_key).collect();
    status::refresh(tx, jobs, After::Anything);
    Ok(())
}

/// Writes evaluations without refreshing their jobs' statuses.
pub(crate) fn upsert_rows(tx: &mut Tx<'_>, evals: &[Evaluation]) {
    for eval in evals {
        upsert(tx, eval);
    }
}

fn upsert(tx: &mut Tx<'_>, eval: &Evaluation) {
    let key = job_key(eval);
    // Tokens are not stored in the tables, so the row is stored without one.
    let mut row = Evaluation { modify_index: tx.index(), leader_acl: Secret::default(), ..eval.clone() };
    row.create_index = tx.tables.evals.get(&eval.id).map_or(tx.index(), EvalPlace::create_index);
    if let Some(queued) = &row.queued_allocations {
        summary::set_queued(tx, &key, queued);
    }
    let placed_all = row.failed_tg_allocs.as_ref().is_none_or(|failed| failed.is_empty());
    if row.status == EvalStatus::Complete && placed_all {
        cancel_blocked(tx, &key, &row);
    }
    tx.put::<tables::Evals>(row);
}

/// Cancels the job's other blocked evaluations once one evaluation placed everything.
fn cancel_blocked(tx: &mut Tx<'_>, key: &JobKey, done: &Evaluation) {
    let blocked: Vec<Arc<Evaluation>> =
        tx.blocked_evals_of_job(&key.namespace, &key.id).filter(|row| row.id != done.id).collect();
    for row in blocked {
        tx.put::<tables::Evals>(Evaluation {
            status: EvalStatus::Canceled,
            status_description: format!("evaluation \"{}\" successful", done.id).into(),
            modify_index: tx.index(),
            modify_time: done.modify_time,
            ..Evaluation::clone(&row)
        });
    }
}

/// Sets the modify index of an evaluation whose plan was applied: a worker that dequeues it again must use a view that
/// includes the result.
pub(crate) fn touch(tx: &mut Tx<'_>, id: EvalId) -> Result<(), Rejected> {
    let row =
        Evaluation { modify_index: tx.index(), ..Evaluation::clone(&*tx.eval(id).ok_or(Rejected::EvalNotFound(id))?) };
    tx.put::<tables::Evals>(row);
    Ok(())
}

/// Deletes evaluations and allocations by id. On a user's request only while the broker is paused, which could hold a
/// deleted evaluation.
pub(crate) fn reap(tx: &mut Tx<'_>, cmd: &ReapEvals) -> Result<(), Rejected> {
    if cmd.user_initiated && !is_paused(tx) {
        return Err(Rejected::EvalBrokerRunning);
    }
    let mut jobs = BTreeSet::new();
    for id in &cmd.evals {
        if let Some(row) = tx.packed_eval(*id) {
            jobs.insert(JobKey::clone(row.job()));
            tx.delete::<tables::Evals>(id);
        }
    }
    for id in &cmd.allocs {
        tx.delete::<tables::Allocs>(id);
    }
    status::refresh(tx, jobs, After::EvalsDeleted);
    Ok(())
}

#[cfg(test)]
mod tests;
