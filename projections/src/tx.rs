//! The only writer of the state. All writes of an entry go through one `Tx`, which sees its own writes, records one
//! change per written row and keeps indexes, table indexes and digests in step. A `Tx` that is taken back leaves the
//! state as it was.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use songline_commands::Actor;
use songline_model::{ALL_NODE_POOL, Blob, DEFAULT_NAMESPACE, DEFAULT_NODE_POOL, Namespace, NodePool, Time};

use crate::change::{Change, RowKey, Visitor, Visits};
use crate::digest::{self, Digest};
use crate::row_map::RowMap;
use crate::state::{BUILT_IN_INDEX, State};
use crate::table::{Entry, Kept, Table, TableType, tables};

/// Index, time and actor of the entry being applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamp {
    /// Index in the Raft log.
    pub raft_index: u64,
    /// Index as users see it.
    pub index: u64,
    /// Time at which the entry was proposed, never earlier than that of the entry before.
    pub at: Time,
    /// The proposer.
    pub actor: Actor,
}

/// A row's change by the entry so far, and the hash of the row before the entry.
struct Pending {
    change: Change,
    before_hash: Digest,
}

/// The writes of one entry so far.
pub(crate) struct Tx<'a> {
    state: &'a mut State,
    stamp: Stamp,
    /// In the order of the last write; a change that moved leaves a hole.
    pending: Vec<Option<Pending>>,
    positions: BTreeMap<RowKey, usize>,
    touched: [bool; crate::table::TABLES],
    kept_though_refused: bool,
}

impl Deref for Tx<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        self.state
    }
}

impl<'a> Tx<'a> {
    pub(crate) fn new(state: &'a mut State, stamp: Stamp) -> Self {
        Self {
            state,
            stamp,
            pending: Vec::new(),
            positions: BTreeMap::new(),
            touched: [false; crate::table::TABLES],
            kept_though_refused: false,
        }
    }

    /// The index of this entry, as users see it.
    pub(crate) fn index(&self) -> u64 {
        self.stamp.index
    }

    /// The proposer of this entry.
    pub(crate) fn actor(&self) -> &Actor {
        &self.stamp.actor
    }

    /// The changes so far, in the order of the last write of each row.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.pending.iter().flatten().map(|pending| &pending.change)
    }

    /// The time of this entry.
    pub(crate) fn at(&self) -> Time {
        self.stamp.at
    }

    /// Creates or replaces a row.
    pub(crate) fn put<T: TableType>(&mut self, row: impl Into<Arc<T::Row>>) {
        let row = T::share(self.state, row.into());
        let key = T::key(&row);
        let entry = Entry { kept: T::Kept::keep(self.state, &row), hash: Digest::ZERO };
        let old = T::rows_mut(self.state).0.insert(key.clone(), entry);
        self.wrote::<T>(&key, old, Some(row));
    }

    /// Deletes a row. Returns whether it existed.
    pub(crate) fn delete<T: TableType>(&mut self, key: &T::Key) -> bool {
        let Some(old) = T::rows_mut(self.state).0.remove(key) else {
            return false;
        };
        self.wrote::<T>(key, Some(old), None);
        true
    }

    /// Deletes existing rows without duplicates, with the same effect as single calls of `delete`: changes come in the
    /// order of `rows`.
    pub(crate) fn delete_all<T: TableType>(&mut self, rows: Vec<Arc<T::Row>>) {
        self.touched[T::TABLE as usize] |= !rows.is_empty();
        let keys: Vec<T::Key> = rows.iter().map(|row| T::key(row)).collect();
        let mut sorted: Vec<(T::Key, usize)> = keys.iter().cloned().zip(0..).collect();
        sorted.sort_unstable();
        let (sorted, places): (Vec<T::Key>, Vec<usize>) = sorted.into_iter().unzip();
        let mut hashes = vec![None; rows.len()];
        let mut places = sorted.iter().zip(places);
        T::rows_mut(self.state).0.remove_sorted(&sorted, |key, entry| {
            if let Some((_, place)) = places.find(|(wanted, _)| *wanted == key) {
                hashes[place] = Some(entry.hash);
            }
        });
        T::reindex_gone(self.state, &rows);
        for ((key, row), hash) in keys.into_iter().zip(rows).zip(hashes) {
            self.note::<T>(&key, Some(row), hash.expect("rows are dropped that are there"), None);
        }
    }

    /// Marks the table as changed although none of its rows is.
    pub(crate) fn bump(&mut self, table: Table) {
        self.touched[table as usize] = true;
    }

    /// Keeps the writes even though the command is refused.
    pub(crate) fn keep_though_refused(&mut self) {
        self.kept_though_refused = true;
    }

    pub(crate) fn is_kept_though_refused(&self) -> bool {
        self.kept_though_refused
    }

    fn wrote<T: TableType>(&mut self, key: &T::Key, old: Option<Entry<T::Kept>>, after: Option<Arc<T::Row>>) {
        self.touched[T::TABLE as usize] = true;
        let (old, old_hash) = match old {
            Some(entry) => (Some(entry.kept.row(self.state, key)), entry.hash),
            None => (None, Digest::ZERO),
        };
        T::reindex(self.state, old.as_ref(), after.as_ref());
        self.note::<T>(key, old, old_hash, after);
    }

    /// Records the write of a row: each row has one change, at the position of its last write.
    fn note<T: TableType>(
        &mut self,
        key: &T::Key,
        old: Option<Arc<T::Row>>,
        old_hash: Digest,
        after: Option<Arc<T::Row>>,
    ) {
        let next = self.pending.len();
        let (before, before_hash) = match self.positions.entry(T::row_key(key)) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(next);
                (old, old_hash)
            }
            std::collections::btree_map::Entry::Occupied(mut occupied) => {
                let first = self.pending[*occupied.get()].take().expect("a position points at a change until it moves");
                occupied.insert(next);
                (T::before(first.change), first.before_hash)
            }
        };
        self.pending.push(Some(Pending { change: T::change(before, after), before_hash }));
    }

    /// Makes the writes final: hashes the written rows, sets the tables' indexes, and returns the changes in the order
    /// of the last writes.
    pub(crate) fn commit(self) -> Vec<Change> {
        let Tx { state, stamp, pending, positions, touched, .. } = self;
        let mut seal = Seal { state, scratch: Vec::new(), before_hash: Digest::ZERO };
        let mut changes = Vec::with_capacity(positions.len());
        for pending in pending.into_iter().flatten() {
            if !pending.change.is_void() {
                seal.before_hash = pending.before_hash;
                pending.change.visit(&mut seal);
                changes.push(pending.change);
            }
        }
        for (index, _) in seal.state.table_index.iter_mut().zip(touched).filter(|(_, touched)| *touched) {
            *index = stamp.index;
        }
        changes
    }

    /// Makes the writes final on a fork that is never compared: skips the hashes, so the fork's digests become
    /// invalid.
    pub(crate) fn commit_to_fork(self) {
        for (index, _) in self.state.table_index.iter_mut().zip(self.touched).filter(|(_, touched)| *touched) {
            *index = self.stamp.index;
        }
    }

    /// Undoes the writes so far; more writes may follow.
    pub(crate) fn take_back(&mut self) {
        self.positions.clear();
        self.touched = [false; crate::table::TABLES];
        for pending in std::mem::take(&mut self.pending).into_iter().rev().flatten() {
            pending.change.visit(TakeBack { state: self.state, before_hash: pending.before_hash });
        }
    }
}

/// Replaces the hashes of the rows before by those of the rows after.
struct Seal<'a> {
    state: &'a mut State,
    scratch: Vec<u8>,
    before_hash: Digest,
}

impl Visitor for &mut Seal<'_> {
    type Out = ();

    fn restored(self) {}
}

impl<T: TableType> Visits<T> for &mut Seal<'_> {
    fn visit(self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) {
        let mut sum = self.state.digests[T::TABLE as usize];
        if before.is_some() {
            sum = sum.minus(self.before_hash);
        }
        if let Some(row) = after {
            let key = T::key(row);
            let hash = digest::row::<T>(&key, row, &mut self.scratch);
            sum = sum.plus(hash);
            T::rows_mut(self.state).0.get_mut(&key).expect("the last write of the row put it there").hash = hash;
        }
        self.state.digests[T::TABLE as usize] = sum;
    }
}

/// Restores the rows before the entry.
struct TakeBack<'a> {
    state: &'a mut State,
    before_hash: Digest,
}

impl Visitor for TakeBack<'_> {
    type Out = ();

    fn restored(self) {}
}

impl<T: TableType> Visits<T> for TakeBack<'_> {
    fn visit(self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) {
        match (before, after) {
            (Some(row), _) => {
                let entry = Entry { kept: T::Kept::keep(self.state, row), hash: self.before_hash };
                T::rows_mut(self.state).0.insert(T::key(row), entry);
            }
            (None, Some(row)) => {
                T::rows_mut(self.state).0.remove(&T::key(row));
            }
            (None, None) => {}
        }
        T::reindex(self.state, after, before);
    }
}

/// BLAKE2b-256 over the built-in namespace's name and description, as clients expect it.
const DEFAULT_NAMESPACE_HASH: [u8; 32] = [
    11, 181, 27, 140, 60, 1, 43, 71, 74, 243, 4, 42, 236, 140, 224, 237, 34, 72, 205, 165, 126, 148, 138, 54, 95, 188,
    17, 183, 54, 55, 165, 44,
];

/// Inserts the rows that every cluster starts with.
pub(crate) fn built_in(state: &mut State) {
    let stamp = Stamp { raft_index: 0, index: BUILT_IN_INDEX, at: Time::default(), actor: Actor::Anonymous };
    let mut tx = Tx::new(state, stamp);
    tx.put::<tables::Namespaces>(Namespace {
        name: DEFAULT_NAMESPACE.into(),
        description: "Default shared namespace".into(),
        hash: Some(Blob(DEFAULT_NAMESPACE_HASH.to_vec())),
        create_index: BUILT_IN_INDEX,
        modify_index: BUILT_IN_INDEX,
        ..Namespace::default()
    });
    for (name, description) in
        [(ALL_NODE_POOL, "Node pool with all nodes in the cluster."), (DEFAULT_NODE_POOL, "Default node pool.")]
    {
        tx.put::<tables::NodePools>(NodePool {
            name: name.into(),
            description: description.into(),
            create_index: BUILT_IN_INDEX,
            modify_index: BUILT_IN_INDEX,
            ..NodePool::default()
        });
    }
    tx.commit();
}
