//! The agent's durable state: its identity, its allocations, and the handles of its tasks' processes.
//!
//! One thread owns the database, because it may block in any write; callers wait only where they need a write to be
//! on disk.

mod shown;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde::{Deserialize, Serialize};
use songline_model::{AllocDeploymentStatus, AllocId, AllocNetworkStatus, Allocation, FlatMap, Str};
use songline_rpc::AllocReport;
use songline_rpc::message::CheckResult;
use tokio::sync::oneshot;

pub use shown::read_state;

use crate::core::TaskRecord;
use crate::csi::HeldVolumes;
use crate::meta::Dynamic;

const CACHE_BYTES: u64 = 4 << 20;
const MEMTABLE_BYTES: u64 = 4 << 20;
const JOURNAL_BYTES: u64 = 64 << 20;

/// Reasons why the agent's state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The database cannot be opened.
    #[error("opening the agent's state in {dir}")]
    Open {
        /// Directory of the database.
        dir: String,
        /// Cause.
        #[source]
        source: fjall::Error,
    },
    /// A running agent has the database open.
    #[error("an agent that runs has {dir} open; stop it first")]
    InUse {
        /// Directory of the database.
        dir: String,
    },
    /// The database cannot be copied, to be read without a write to it.
    #[error("copying the agent's state in {dir}")]
    Copy {
        /// Directory of the database.
        dir: String,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// Reading fails.
    #[error("failed to restore state")]
    Read(#[source] fjall::Error),
    /// A value cannot be decoded.
    #[error("failed to restore state: decoding {key}")]
    Decode {
        /// Key of the value.
        key: String,
        /// Cause.
        #[source]
        source: rmp_serde::decode::Error,
    },
}

/// Stored state of an allocation.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    pub alloc: Allocation,
    pub tasks: BTreeMap<Str, TaskRecord>,
    pub health: Option<AllocDeploymentStatus>,
    pub checks: BTreeMap<Str, CheckResult>,
    pub network: Option<AllocNetworkStatus>,
    pub volumes: HeldVolumes,
    pub acknowledged: Option<AllocReport>,
}

/// Client state of an allocation that the servers have acknowledged.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Acknowledged {
    client_status: songline_model::AllocClientStatus,
    client_description: Str,
    task_states: Arc<FlatMap<Str, songline_model::TaskState>>,
    deployment_status: Option<AllocDeploymentStatus>,
    network_status: Option<AllocNetworkStatus>,
}

enum Write {
    Put(Vec<(String, Vec<u8>)>),
    /// End of the thread: nothing is written after it.
    End,
    /// Deletes all keys with this prefix.
    Clear(String),
}

struct Job {
    write: Write,
    /// Whether the write is complete only once it is on disk.
    sync: bool,
    done: Option<oneshot::Sender<Result<(), NotWritten>>>,
}

/// Reasons why a write was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotWritten {
    /// The agent has ended. A later agent may own the directory already, so this one must not continue.
    #[error("the agent's state is closed")]
    Closed,
    /// The disk refused the write; the cause was logged.
    #[error("the agent's state cannot be written")]
    Disk,
}

/// Handle of the database's thread.
#[derive(Clone)]
pub(crate) struct StateDb {
    jobs: mpsc::Sender<Job>,
}

/// All stored state at the start.
pub(crate) struct Contents {
    pub identity: Option<String>,
    pub registered: bool,
    pub meta: Dynamic,
    pub allocs: BTreeMap<AllocId, Left>,
}

impl StateDb {
    /// Opens the database and reads everything. Blocks.
    pub fn open(dir: &Path) -> Result<(Self, Contents, std::thread::JoinHandle<()>), StateError> {
        let (db, rows) = database(dir)?;
        let contents = read(&rows)?;
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::spawn(move || write_all(&db, &rows, &queue));
        Ok((Self { jobs }, contents, thread))
    }

    /// Stores node id and secret, and waits for the disk. A failure costs the node its identity at the next start.
    pub async fn put_identity(&self, identity: String) {
        let _ = self.put(vec![("node/identity".to_owned(), identity.into_bytes())]).await;
    }

    /// Stores that the servers know this node.
    pub fn put_registered(&self) {
        self.put_later(vec![("node/registration".to_owned(), Vec::new())]);
    }

    /// Stores dynamic metadata, and waits for the disk. After a failure the metadata is valid until the next start
    /// only.
    pub async fn put_meta(&self, meta: &Dynamic) {
        let _ = self.put(vec![("node/meta".to_owned(), encode(meta))]).await;
    }

    /// Stores the servers' copy of an allocation.
    pub fn put_alloc(&self, alloc: &Allocation) {
        self.put_later(vec![(key(&alloc.id, "alloc"), encode(alloc))]);
    }

    /// Stores the records of tasks; with `sync`, waits for the disk and returns its error.
    pub async fn put_tasks(
        &self,
        alloc: &AllocId,
        tasks: Vec<(Str, TaskRecord)>,
        sync: bool,
    ) -> Result<(), NotWritten> {
        let rows =
            tasks.into_iter().map(|(name, record)| (key(alloc, &format!("task-{name}")), encode(&record))).collect();
        if sync {
            return self.put(rows).await;
        }
        self.put_later(rows);
        Ok(())
    }

    /// Stores the health of an allocation.
    pub fn put_health(&self, alloc: &AllocId, health: Option<&AllocDeploymentStatus>) {
        self.put_later(vec![(key(alloc, "deploy_status"), encode(&health))]);
    }

    /// Stores the interface and address of an allocation.
    pub fn put_network(&self, alloc: &AllocId, network: &AllocNetworkStatus) {
        self.put_later(vec![(key(alloc, "network_status"), encode(network))]);
    }

    /// Stores the CSI volumes of an allocation.
    pub fn put_volumes(&self, alloc: &AllocId, volumes: &HeldVolumes) {
        self.put_later(vec![(key(alloc, "csi_volumes"), encode(volumes))]);
    }

    /// Stores the results of an allocation's checks.
    pub fn put_checks(&self, alloc: &AllocId, results: &BTreeMap<Str, CheckResult>) {
        self.put_later(vec![(key(alloc, "checks"), encode(results))]);
    }

    /// Stores the state that the servers have acknowledged.
    pub fn put_acknowledged(&self, update: &AllocReport) {
        let row = Acknowledged {
            client_status: update.client_status,
            client_description: update.client_description.clone(),
            task_states: update.task_states.clone().unwrap_or_default(),
            deployment_status: update.deployment_status.clone(),
            network_status: update.network_status.clone(),
        };
        self.put_later(vec![(key(&update.id, "acknowledged_state"), encode(&row))]);
    }

    /// Deletes an allocation. Waits for the disk: an allocation whose directory is gone must not be restored.
    pub async fn forget(&self, alloc: &AllocId) {
        let (done, wait) = oneshot::channel();
        let _ = self.jobs.send(Job { write: Write::Clear(key(alloc, "")), sync: true, done: Some(done) });
        let _ = wait.await;
    }

    /// Like [`Self::forget`], without waiting. Writes about the allocation after this call stay.
    pub fn forget_later(&self, alloc: &AllocId) {
        let _ = self.jobs.send(Job { write: Write::Clear(key(alloc, "")), sync: false, done: None });
    }

    /// Ends the thread once all earlier writes are done; later writes are dropped.
    pub fn close(&self) {
        let _ = self.jobs.send(Job { write: Write::End, sync: false, done: None });
    }

    async fn put(&self, rows: Vec<(String, Vec<u8>)>) -> Result<(), NotWritten> {
        let (done, wait) = oneshot::channel();
        let _ = self.jobs.send(Job { write: Write::Put(rows), sync: true, done: Some(done) });
        // After its end the thread drops all writes and their senders.
        wait.await.unwrap_or(Err(NotWritten::Closed))
    }

    fn put_later(&self, rows: Vec<(String, Vec<u8>)>) {
        let _ = self.jobs.send(Job { write: Write::Put(rows), sync: false, done: None });
    }
}

fn database(dir: &Path) -> Result<(Database, Keyspace), StateError> {
    let opening = |source| StateError::Open { dir: dir.display().to_string(), source };
    let db = Database::builder(dir)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(1)
        .open()
        .map_err(opening)?;
    let rows = db
        .keyspace("client", || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES))
        .map_err(opening)?;
    Ok((db, rows))
}

fn key(alloc: &AllocId, what: &str) -> String {
    format!("allocations/{alloc}/{what}")
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("rows encode: their keys are texts and their numbers finite")
}

/// Writes the queued jobs, all that have accumulated in one batch. Jobs after the end are dropped, which reports them
/// as not written.
fn write_all(db: &Database, rows: &Keyspace, queue: &mpsc::Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let mut jobs = vec![first];
        jobs.extend(queue.try_iter());
        let end = jobs.iter().position(|job| matches!(job.write, Write::End));
        // Dropping these jobs' senders informs the waiting callers.
        jobs.truncate(end.unwrap_or(jobs.len()));
        let written = write(db, rows, &jobs).map_err(|error| {
            tracing::error!(%error, "writing the agent's state");
            NotWritten::Disk
        });
        for done in jobs.into_iter().filter_map(|job| job.done) {
            let _ = done.send(written);
        }
        if end.is_some() {
            return;
        }
    }
}

fn write(db: &Database, rows: &Keyspace, jobs: &[Job]) -> fjall::Result<()> {
    let sync = jobs.iter().any(|job| job.sync);
    // Only the last write to each key goes into the batch: a batch does not see its own rows, so clearing a prefix
    // would miss rows that were put before it.
    let mut last: BTreeMap<Vec<u8>, Option<&[u8]>> = BTreeMap::new();
    for job in jobs {
        match &job.write {
            Write::Put(pairs) => {
                last.extend(pairs.iter().map(|(key, value)| (key.clone().into_bytes(), Some(value.as_slice()))))
            }
            Write::End => {}
            Write::Clear(prefix) => {
                let prefix = prefix.as_bytes();
                last.iter_mut().filter(|(key, _)| key.starts_with(prefix)).for_each(|(_, value)| *value = None);
                for guard in rows.prefix(prefix) {
                    last.insert(guard.key()?.to_vec(), None);
                }
            }
        }
    }
    let mut batch = db.batch().durability(Some(if sync { PersistMode::SyncData } else { PersistMode::Buffer }));
    for (key, value) in last {
        match value {
            Some(value) => batch.insert(rows, key, value),
            None => batch.remove(rows, key),
        }
    }
    batch.commit()
}

fn read(rows: &Keyspace) -> Result<Contents, StateError> {
    let mut contents = Contents { identity: None, registered: false, meta: Dynamic::new(), allocs: BTreeMap::new() };
    let mut parts: BTreeMap<AllocId, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    for guard in rows.iter() {
        let (key, value) = guard.into_inner().map_err(StateError::Read)?;
        let key = String::from_utf8_lossy(&key).into_owned();
        match key.as_str() {
            "node/identity" => contents.identity = Some(String::from_utf8_lossy(&value).into_owned()),
            "node/registration" => contents.registered = true,
            "node/meta" => {
                contents.meta =
                    rmp_serde::from_slice(&value).map_err(|source| StateError::Decode { key: key.clone(), source })?;
            }
            _ => {
                let alloc = key.strip_prefix("allocations/").and_then(|rest| rest.split_once('/'));
                if let Some((id, what)) = alloc
                    && let Ok(id) = id.parse()
                {
                    parts.entry(id).or_default().insert(what.to_owned(), value.to_vec());
                }
            }
        }
    }
    for (id, parts) in parts {
        match left(&id, &parts) {
            Ok(Some(left)) => drop(contents.allocs.insert(id, left)),
            Ok(None) => {}
            // An unreadable allocation is skipped alone: the servers send it again.
            Err(error) => tracing::error!(alloc = %id, %error, "restoring an allocation"),
        }
    }
    Ok(contents)
}

fn left(id: &AllocId, parts: &BTreeMap<String, Vec<u8>>) -> Result<Option<Left>, StateError> {
    let Some(alloc) = parts.get("alloc") else { return Ok(None) };
    let alloc: Allocation = decode(id, "alloc", alloc)?;
    let mut tasks = BTreeMap::new();
    for (what, value) in parts {
        if let Some(task) = what.strip_prefix("task-") {
            tasks.insert(task.into(), decode(id, what, value)?);
        }
    }
    let health = parts.get("deploy_status").map(|value| decode(id, "deploy_status", value)).transpose()?.flatten();
    let checks = parts.get("checks").map(|value| decode(id, "checks", value)).transpose()?.unwrap_or_default();
    let volumes =
        parts.get("csi_volumes").map(|value| decode(id, "csi_volumes", value)).transpose()?.unwrap_or_default();
    let network = parts.get("network_status").map(|value| decode(id, "network_status", value)).transpose()?;
    let acknowledged = parts
        .get("acknowledged_state")
        .map(|value| decode::<Acknowledged>(id, "acknowledged_state", value))
        .transpose()?;
    let acknowledged = acknowledged.map(|row| AllocReport {
        id: *id,
        client_status: row.client_status,
        client_description: row.client_description,
        task_states: Some(row.task_states),
        deployment_status: row.deployment_status,
        network_status: row.network_status,
        ..AllocReport::default()
    });
    Ok(Some(Left { alloc, tasks, health, checks, network, volumes, acknowledged }))
}

fn decode<T: for<'de> Deserialize<'de>>(id: &AllocId, what: &str, value: &[u8]) -> Result<T, StateError> {
    rmp_serde::from_slice(value).map_err(|source| StateError::Decode { key: key(id, what), source })
}

#[cfg(test)]
mod tests {
    use songline_model::Allocation;

    use super::*;

    const ID: AllocId = AllocId::from_bytes([7; 16]);

    fn record(run: u64) -> Vec<(Str, TaskRecord)> {
        let mut record = TaskRecord::default();
        record.local.run = run;
        vec![("web".into(), record)]
    }

    fn runs(contents: &Contents) -> Vec<u64> {
        contents.allocs.values().flat_map(|left| left.tasks.values()).map(|record| record.local.run).collect()
    }

    #[tokio::test]
    async fn closed_state_database_refuses_writes() {
        let dir = tempfile::tempdir().expect("a directory");
        let (state, _, thread) = StateDb::open(dir.path()).expect("it opens");
        state.put_alloc(&Allocation { id: ID, ..Allocation::default() });
        assert_eq!(state.put_tasks(&ID, record(1), true).await, Ok(()));
        state.close();
        assert_eq!(state.put_tasks(&ID, record(2), true).await, Err(NotWritten::Closed));
        thread.join().expect("it ends");
        assert_eq!(state.put_tasks(&ID, record(3), true).await, Err(NotWritten::Closed));
        let (_state, contents, _) = StateDb::open(dir.path()).expect("it opens again");
        assert_eq!(runs(&contents), [1]);
    }

    #[test]
    fn forgetting_an_alloc_deletes_writes_queued_just_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let (jobs, queue) = mpsc::channel();
        let state = StateDb { jobs };
        let other = AllocId::from_bytes([8; 16]);
        // All jobs are queued before the thread begins, so that they are written in one batch.
        for id in [ID, other] {
            state.put_alloc(&Allocation { id, ..Allocation::default() });
        }
        state.forget_later(&ID);
        state.close();
        let db = Database::builder(dir.path()).open().expect("it opens");
        let rows = db.keyspace("client", KeyspaceCreateOptions::default).expect("it opens");
        write_all(&db, &rows, &queue);
        assert_eq!(read(&rows).expect("it reads").allocs.into_keys().collect::<Vec<_>>(), [other]);
    }

    #[tokio::test]
    async fn forgetting_an_alloc_keeps_writes_queued_afterwards() {
        let dir = tempfile::tempdir().expect("a directory");
        let (state, _, thread) = StateDb::open(dir.path()).expect("it opens");
        let alloc = Allocation { id: ID, ..Allocation::default() };
        state.put_alloc(&alloc);
        state.forget_later(&ID);
        state.put_alloc(&alloc);
        assert_eq!(state.put_tasks(&ID, record(1), true).await, Ok(()));
        state.close();
        thread.join().expect("it ends");
        let (_state, contents, _) = StateDb::open(dir.path()).expect("it opens again");
        assert_eq!(runs(&contents), [1]);
    }
}
