//! Watches: blocking queries wait on the keys of the rows that they have read. `api` runs the queries.
//!
//! A key is registered only while a query waits on it, so a write without watchers costs one atomic load. A reader
//! registers, then evaluates its query, then waits: a change between the two leaves a permit, so no wake-up is lost.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use songline_model::{AllocId, CsiVolumeKey, DeploymentId, EvalId, JobKey, NodeId, Str, VariableKey};
use songline_projections::{Change, Table, Visitor, Visits};
use tokio::sync::Notify;

use crate::nouns::Announce;

/// Rows that a query depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WatchKey {
    /// Any row of a table.
    Table(Table),
    /// The row of a table whose key is this name.
    Named(Table, Str),
    /// One node's row.
    Node(NodeId),
    /// One job's row, in any version.
    Job(JobKey),
    /// One job's summary.
    JobSummary(JobKey),
    /// One evaluation's row.
    Eval(EvalId),
    /// The evaluations of a job.
    JobEvals(JobKey),
    /// One allocation's row.
    Alloc(AllocId),
    /// The allocations of a job.
    JobAllocs(JobKey),
    /// The allocations of a node.
    NodeAllocs(NodeId),
    /// The allocations of this node, as far as the servers changed them: reports of the node itself do not count.
    NodeOrders(NodeId),
    /// The allocations of an evaluation.
    EvalAllocs(EvalId),
    /// The allocations of a deployment.
    DeploymentAllocs(DeploymentId),
    /// One deployment's row.
    Deployment(DeploymentId),
    /// The deployments of a job.
    JobDeployments(JobKey),
    /// One variable's row.
    Variable(VariableKey),
    /// Scaling events of a job.
    JobScaling(JobKey),
    /// One CSI volume's row.
    CsiVolume(CsiVolumeKey),
}

const SHARDS: usize = 16;

type Shard = HashMap<WatchKey, Vec<(u64, Arc<Waiting>)>>;

/// A waiting reader.
#[derive(Debug, Default)]
struct Waiting {
    notify: Notify,
    /// The whole state was replaced since the reader registered.
    is_state_replaced: AtomicBool,
}

/// All waiting queries of a server.
#[derive(Debug)]
pub struct Watches {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    waiting: AtomicUsize,
    next_id: AtomicU64,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            waiting: AtomicUsize::new(0),
            next_id: AtomicU64::new(0),
        }
    }
}

impl Watches {
    /// Registers a reader of these keys. Dropping the watcher ends the registration.
    pub fn register(&self, keys: &[WatchKey]) -> Watcher<'_> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let waiting = Arc::<Waiting>::default();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        for key in keys {
            self.shard(key).lock().entry(key.clone()).or_default().push((id, Arc::clone(&waiting)));
        }
        Watcher { watches: self, keys: keys.to_vec(), id, waiting }
    }

    /// Wakes all readers of these rows. Call it after the view with the changes is published, or a reader may miss
    /// them.
    pub fn wake(&self, changes: &[Change]) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        changes.iter().for_each(|change| change.visit(Wake(self)));
    }

    /// Wakes all readers, because the whole state was replaced. Call it after the new view is published.
    pub fn wake_all(&self) {
        // In the order of their registration, which no hasher decides.
        let mut waiting: Vec<(u64, Arc<Waiting>)> = Vec::new();
        self.shards.iter().for_each(|shard| waiting.extend(shard.lock().values().flatten().cloned()));
        waiting.sort_by_key(|(id, _)| *id);
        for (_, reader) in &waiting {
            reader.is_state_replaced.store(true, Ordering::SeqCst);
            reader.notify.notify_one();
        }
    }

    /// Number of waiting queries.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn wake_key(&self, key: &WatchKey) {
        if let Some(waiters) = self.shard(key).lock().get(key) {
            for (_, reader) in waiters {
                reader.notify.notify_one();
            }
        }
    }

    fn shard(&self, key: &WatchKey) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

/// Wakes the readers of a change: those of its table, and those of its row.
struct Wake<'a>(&'a Watches);

impl Visitor for Wake<'_> {
    type Out = ();

    fn restored(self) {
        self.0.wake_all();
    }
}

impl<T: Announce> Visits<T> for Wake<'_> {
    fn visit(self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) {
        self.0.wake_key(&WatchKey::Table(T::TABLE));
        T::changed_keys(before, after, &mut |key| self.0.wake_key(&key));
    }
}

/// One registered reader.
#[derive(Debug)]
pub struct Watcher<'a> {
    watches: &'a Watches,
    keys: Vec<WatchKey>,
    id: u64,
    waiting: Arc<Waiting>,
}

impl Watcher<'_> {
    /// Returns after the next change of a key; at once when a change came since the last call.
    pub async fn changed(&self) {
        self.waiting.notify.notified().await;
    }

    /// Whether the whole state was replaced since the registration. Indexes of rows may then be lower than before, so a
    /// query answers with what it finds, whatever its index.
    pub fn is_state_replaced(&self) -> bool {
        self.waiting.is_state_replaced.load(Ordering::SeqCst)
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        for key in &self.keys {
            let mut shard = self.watches.shard(key).lock();
            if let Some(waiters) = shard.get_mut(key) {
                waiters.retain(|(id, _)| *id != self.id);
                if waiters.is_empty() {
                    shard.remove(key);
                }
            }
        }
        self.watches.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
