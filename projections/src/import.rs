//! A state made of rows that another program kept: ids, indexes and times stay as they were.
//!
//! The rows come in decoded. The formats of other programs are in other crates.

use std::sync::Arc;

use songline_commands::Actor;
use songline_model::{Deployment, DeploymentStatus};

use crate::change::{Visitor, Visits};
use crate::digest;
use crate::row_map::RowMap;
use crate::state::State;
use crate::table::{Entry, Kept, Noun, Table, TableType, tables};
use crate::tx::{Stamp, Tx};

/// Collects rows into a state.
pub struct Importer {
    state: State,
    scratch: Vec<u8>,
}

impl Importer {
    /// An importer of a state whose last entry was at `index`.
    pub fn new(index: u64) -> Self {
        let mut state = State::empty();
        state.base = index;
        Self { state, scratch: Vec::new() }
    }

    /// Adds a row. A row with the same key is replaced. Job versions have to come before the allocations that share
    /// them.
    pub fn put<T: Noun>(&mut self, row: impl Into<Arc<T::Row>>) {
        T::change(None, Some(row.into())).visit(Put { state: &mut self.state, scratch: &mut self.scratch });
    }

    /// Sets the index of the last entry that changed the table.
    pub fn set_table_index(&mut self, table: Table, index: u64) {
        self.state.table_index[table as usize] = index;
    }

    /// The state. Active deployments without a job end as cancelled: no other code would end them.
    pub fn finish(mut self) -> State {
        crate::alloc::index_loaded(&mut self.state);
        crate::eval::index_loaded(&mut self.state);
        let stamp = Stamp {
            raft_index: 0,
            index: self.state.table_index(Table::Deployment),
            at: self.state.at,
            actor: Actor::Anonymous,
        };
        cancel_orphaned_deployments(&mut self.state, &stamp);
        self.state
    }
}

/// Cancels active deployments without a job. An archive may be from between a job's purge and the end of its
/// deployment, and no other code would end it.
pub(crate) fn cancel_orphaned_deployments(state: &mut State, stamp: &Stamp) {
    let mut tx = Tx::new(state, stamp.clone());
    let orphaned: Vec<_> = tx
        .deployments()
        .filter(|row| row.is_active() && tx.job(&row.namespace, &row.job_id).is_none())
        .cloned()
        .collect();
    for row in orphaned {
        tx.put::<tables::Deployment>(Deployment {
            status: DeploymentStatus::Cancelled,
            status_description: "Cancelled because job is stopped".into(),
            modify_index: stamp.index,
            ..Deployment::clone(&row)
        });
    }
    tx.commit();
}

/// Inserts the row after a change.
struct Put<'a> {
    state: &'a mut State,
    scratch: &'a mut Vec<u8>,
}

impl Visitor for Put<'_> {
    type Out = ();

    fn restored(self) {}
}

impl<T: TableType> Visits<T> for Put<'_> {
    fn visit(self, _before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) {
        let (Some(row), state) = (after, self.state) else { return };
        let row = T::share(state, Arc::clone(row));
        let key = T::key(&row);
        let hash = digest::row::<T>(&key, &row, self.scratch);
        let mut sum = state.digests[T::TABLE as usize].plus(hash);
        let kept = T::Kept::keep(state, &row);
        match T::rows_mut(state).0.insert(key.clone(), Entry { kept, hash }) {
            None => T::index_row(state, &row),
            Some(old) => {
                sum = sum.minus(old.hash);
                T::index_row_again(state, &key, &old.kept, &row);
            }
        }
        state.digests[T::TABLE as usize] = sum;
    }
}
