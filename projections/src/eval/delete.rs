//! Deletion of evaluations on a user's request: which evaluations may be deleted, and one bounded slice through the
//! selected ones. `work.rs` has the sequence of slices.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use songline_commands::Slice;
use songline_lang::bexpr::Filter;
use songline_model::{AllocClientStatus, Allocation, EvalId, Evaluation, JobKey, JobStatus};

use crate::eval::packed::{Looked, PackedEval};
use crate::job::status::{self, After};
use crate::state::State;
use crate::table::tables;
use crate::tx::Tx;

/// Whether the eval broker is paused. Without a scheduler configuration the broker runs.
pub(crate) fn is_paused(state: &State) -> bool {
    state.scheduler_config().is_some_and(|config| config.pause_eval_broker)
}

/// Whether no allocation still needs the evaluation for its replacement.
pub fn is_safe_to_delete(state: &State, eval: &Evaluation) -> bool {
    is_job_over(state, &super::job_key(eval)) || are_allocs_over(state, eval.id)
}

fn may_go(state: &State, id: EvalId, eval: &PackedEval) -> bool {
    is_job_over(state, eval.job()) || are_allocs_over(state, id)
}

fn is_job_over(state: &State, key: &JobKey) -> bool {
    state.job_by_key(key).is_none_or(|job| job.stop || job.status == JobStatus::Dead)
}

fn are_allocs_over(state: &State, eval: EvalId) -> bool {
    state.allocs_of_eval(eval).all(|alloc| is_over(alloc))
}

fn is_over(alloc: &Allocation) -> bool {
    match alloc.client_status {
        AllocClientStatus::Running | AllocClientStatus::Unknown => false,
        AllocClientStatus::Failed => {
            let policy = alloc.group().and_then(|group| group.reschedule_policy.as_ref());
            let replaced = alloc.next_allocation.is_some()
                && alloc
                    .reschedule_tracker
                    .as_ref()
                    .is_some_and(|tracker| tracker.events.iter().flatten().next().is_some());
            match policy {
                None => true,
                Some(policy) if policy.attempts == 0 && !policy.unlimited => true,
                Some(policy) => replaced && !policy.unlimited,
            }
        }
        AllocClientStatus::Pending | AllocClientStatus::Complete | AllocClientStatus::Lost => true,
    }
}

/// Result of one slice through the evaluations.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Number of evaluations examined.
    pub(crate) looked: u64,
    /// Number of evaluations deleted.
    pub(crate) deleted: u64,
    /// The last evaluation examined, by create index and id. Set by [`Scan::by_filter`] only.
    pub(crate) last: Option<(u64, EvalId)>,
    /// Whether no evaluation is left to examine.
    pub(crate) ended: bool,
    doomed: Vec<Arc<Evaluation>>,
    jobs: Vec<Arc<JobKey>>,
}

impl Scan {
    /// Scans the evaluations after `after` with a create index up to `through`. An evaluation on which the filter
    /// fails is kept.
    pub(crate) fn by_filter(
        tx: &mut Tx<'_>,
        slice: Slice,
        filter: &Filter,
        after: Option<(u64, EvalId)>,
        through: u64,
    ) -> Self {
        let mut scan = Self::default();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let to = Bound::Excluded((through.saturating_add(1), EvalId::NIL));
        scan.ended = true;
        for (key, eval) in tx.by.evals_by_create.range((from, to)) {
            if scan.looked >= u64::from(slice.looks_max) || scan.doomed.len() as u64 >= u64::from(slice.rows_max) {
                scan.ended = false;
                break;
            }
            scan.looked += 1;
            scan.last = Some(*key);
            let id = key.1;
            if filter.matches_fields(&Looked::new(id, eval)).unwrap_or(false) && may_go(tx, id, eval) {
                scan.choose(id, eval);
            }
        }
        scan.delete(tx)
    }

    /// Scans the next of the evaluations in `ids`, after the first `looked`. Missing ones, those created after
    /// `through`, and those that are not safe to delete are skipped.
    pub(crate) fn by_ids(tx: &mut Tx<'_>, slice: Slice, ids: &[EvalId], looked: u64, through: u64) -> Self {
        let mut scan = Self::default();
        // The list may contain an id several times.
        let mut seen = BTreeSet::new();
        let left = ids.get(usize::try_from(looked).unwrap_or(usize::MAX)..).unwrap_or_default();
        for id in left.iter().take(slice.rows_max as usize) {
            scan.looked += 1;
            if tx.tables.evals.get(id).is_none_or(|place| place.create_index() > through) || !seen.insert(*id) {
                continue;
            }
            if let Some(eval) = tx.packed_eval(*id).filter(|eval| may_go(tx, *id, eval)) {
                scan.choose(*id, eval);
            }
        }
        scan.ended = scan.looked == left.len() as u64;
        scan.delete(tx)
    }

    fn choose(&mut self, id: EvalId, eval: &PackedEval) {
        self.doomed.push(eval.row(&id));
        self.jobs.push(Arc::clone(eval.job()));
    }

    /// Deletes the selected evaluations together: neighbours in an index are removed in one walk.
    fn delete(mut self, tx: &mut Tx<'_>) -> Self {
        self.deleted = self.doomed.len() as u64;
        tx.delete_all::<tables::Evals>(std::mem::take(&mut self.doomed));
        self.jobs.sort();
        self.jobs.dedup();
        status::refresh(tx, std::mem::take(&mut self.jobs), After::EvalsDeleted);
        self
    }
}
