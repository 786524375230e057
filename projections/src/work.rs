//! Long work: opened by one entry and continued by `ContinueWork` entries, so that no entry takes long to apply. The
//! noun's file has the effect of a slice on its rows; the leader's `work` machine proposes the slices and chooses
//! their size.
//!
//! The row is the complete state of a piece of work: after a restart, a leader change or a restore, the work continues
//! from the row.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_commands::{ContinueWork, DeleteEvals, EvalChoice, Slice, StopWork, WorkId};
use songline_lang::bexpr::Filter;
use songline_model::{EvalId, Str, Time};

use crate::eval::{self, Scan};
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, Table, tables};
use crate::tx::Tx;

/// Number of ended pieces of work that are remembered, so that callers can learn the result.
const ENDED_MAX: usize = 64;

/// One piece of long work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Work {
    /// Index of the entry that opened it.
    #[serde(rename = "ID")]
    pub id: WorkId,
    /// The task to do.
    pub task: WorkTask,
    /// The actor that requested the work.
    pub actor: Str,
    /// Time of the opening entry.
    pub opened_at: Time,
    /// The last row examined, by create index and id. `None`: none yet.
    pub cursor: Option<(u64, EvalId)>,
    /// Number of rows to examine, counted when the work was opened.
    pub total: u64,
    /// Number of rows examined.
    pub looked: u64,
    /// Number of rows deleted.
    pub deleted: u64,
    /// Index of the last slice.
    pub modify_index: u64,
    /// Result. `None`: the work is under way.
    pub ended: Option<Ended>,
}

/// Task of a piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkTask {
    /// Delete evaluations. A list of ids is dropped when the work ends.
    DeleteEvals(Arc<EvalChoice>),
}

impl Default for WorkTask {
    fn default() -> Self {
        WorkTask::DeleteEvals(Arc::default())
    }
}

/// Result of a piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Ended {
    /// Index of the last entry of the work.
    pub index: u64,
    /// Time of the last entry.
    pub at: Time,
    /// Reason why the work ended early. Empty: the work is complete.
    pub refused: Str,
}

/// The parsed filter of a piece of work, or the refusal of a text that is no filter.
pub(crate) type WorkFilter = Result<Arc<Filter>, Rejected>;

impl Rules<WorkId, Work> for tables::PendingWork {
    fn key(row: &Work) -> WorkId {
        row.id
    }

    #[cfg(test)]
    fn in_story(row: &Work) -> String {
        format!("work:{}", row.id.0)
    }

    /// Parses the filter when the work is opened or read from a checkpoint, so that no slice parses it again.
    fn reindex(state: &mut State, before: Option<&Arc<Work>>, after: Option<&Arc<Work>>) {
        let filters = &mut state.by.work_filters;
        match (before.and_then(|row| row.filter()), after.and_then(|row| row.filter())) {
            (Some((id, before)), Some((_, after))) if before == after && filters.contains_key(&id) => {}
            (_, Some((id, text))) => drop(filters.insert(id, parse(text))),
            (Some((id, _)), None) => drop(filters.remove(&id)),
            (None, None) => {}
        }
    }
}

impl Work {
    /// The filter that selects the rows. `None`: the work has ended, or its rows are selected by id.
    pub(crate) fn filter(&self) -> Option<(WorkId, &Str)> {
        let WorkTask::DeleteEvals(choice) = &self.task;
        match &**choice {
            EvalChoice::Filter(text) if self.ended.is_none() => Some((self.id, text)),
            EvalChoice::Filter(_) | EvalChoice::Ids(_) => None,
        }
    }
}

impl State {
    /// The piece of work that the entry at this index opened.
    pub fn work(&self, id: WorkId) -> Option<&Arc<Work>> {
        self.tables.pending_work.get(&id)
    }

    /// All work, under way and ended, oldest first.
    pub fn all_work(&self) -> impl DoubleEndedIterator<Item = &Arc<Work>> {
        self.tables.pending_work.iter()
    }

    /// The work under way, oldest first.
    pub fn work_under_way(&self) -> impl DoubleEndedIterator<Item = &Arc<Work>> {
        self.all_work().filter(|work| work.ended.is_none())
    }
}

/// Opens the deletion of evaluations and does its first slice. Refused while the broker runs.
pub(crate) fn open_eval_delete(tx: &mut Tx<'_>, cmd: &DeleteEvals) -> Result<(), Rejected> {
    if !eval::is_paused(tx) {
        return Err(Rejected::EvalBrokerRunning);
    }
    let total = match &cmd.choice {
        EvalChoice::Ids(ids) => ids.len() as u64,
        EvalChoice::Filter(_) => tx.table_len(Table::Evals) as u64,
    };
    let work = Work {
        id: WorkId(tx.index()),
        task: WorkTask::DeleteEvals(Arc::new(cmd.choice.clone())),
        actor: tx.actor().to_string().into(),
        opened_at: tx.at(),
        total,
        ..Work::default()
    };
    forget_old(tx);
    tx.put::<tables::PendingWork>(work.clone());
    if let Some(Err(refused)) = tx.by.work_filters.get(&work.id) {
        return Err(refused.clone());
    }
    step(tx, work, cmd.slice);
    Ok(())
}

/// Does the next slice. Does nothing for ended work: the work may have been stopped after the slice was proposed.
pub(crate) fn proceed(tx: &mut Tx<'_>, cmd: &ContinueWork) -> Result<(), Rejected> {
    let work = tx.work(cmd.work).ok_or(Rejected::WorkNotUnderWay(cmd.work.0))?;
    if work.ended.is_none() {
        let work = Work::clone(work);
        step(tx, work, cmd.slice);
    }
    Ok(())
}

/// Prefix of the actor in `refused` of work that was stopped.
pub const STOPPED_BY: &str = "stopped by ";

/// Stops the work. Finished slices are not undone.
pub(crate) fn stop(tx: &mut Tx<'_>, cmd: &StopWork) -> Result<(), Rejected> {
    let work = under_way(tx, cmd.work)?;
    let by = format!("{STOPPED_BY}{}", tx.actor());
    end(tx, work, by.into());
    Ok(())
}

fn under_way(tx: &Tx<'_>, id: WorkId) -> Result<Work, Rejected> {
    let row = tx.work(id).filter(|work| work.ended.is_none()).ok_or(Rejected::WorkNotUnderWay(id.0))?;
    Ok(Work::clone(row))
}

fn step(tx: &mut Tx<'_>, mut work: Work, slice: Slice) {
    let WorkTask::DeleteEvals(choice) = &work.task;
    // A running broker may hold evaluations that are still to be deleted.
    if !eval::is_paused(tx) {
        return end(tx, work, Rejected::EvalBrokerRunning.to_string().into());
    }
    // Evaluations created after the work was opened are not part of it.
    let scan = match &**choice {
        EvalChoice::Ids(ids) => Scan::by_ids(tx, slice, ids, work.looked, work.id.0),
        EvalChoice::Filter(_) => match tx.by.work_filters.get(&work.id).cloned().expect("work under way is indexed") {
            Ok(filter) => Scan::by_filter(tx, slice, &filter, work.cursor, work.id.0),
            Err(refused) => return end(tx, work, refused.to_string().into()),
        },
    };
    work.looked += scan.looked;
    work.deleted += scan.deleted;
    work.cursor = scan.last.or(work.cursor);
    work.modify_index = tx.index();
    if scan.ended {
        return end(tx, work, Str::default());
    }
    tx.put::<tables::PendingWork>(work);
}

fn end(tx: &mut Tx<'_>, mut work: Work, refused: Str) {
    work.modify_index = tx.index();
    work.ended = Some(Ended { index: tx.index(), at: tx.at(), refused });
    let WorkTask::DeleteEvals(choice) = &work.task;
    if let EvalChoice::Ids(_) = &**choice {
        work.task = WorkTask::default();
    }
    tx.put::<tables::PendingWork>(work);
}

/// Deletes the oldest ended work, to make room for one more.
fn forget_old(tx: &mut Tx<'_>) {
    let ended: Vec<WorkId> = tx.all_work().filter(|work| work.ended.is_some()).map(|work| work.id).collect();
    for id in ended.iter().take((ended.len() + 1).saturating_sub(ENDED_MAX)) {
        tx.delete::<tables::PendingWork>(id);
    }
}

fn parse(text: &str) -> WorkFilter {
    Filter::parse(text).map(Arc::new).map_err(|error| Rejected::EvalFilterInvalid(error.to_string()))
}

#[cfg(test)]
mod tests;
