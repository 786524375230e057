//! Operator's chores: archives of the state, garbage collection, refills.

use std::fs::File;
use std::future::Future;

use serde::Serialize;
use songline_commands::{Actor, Idempotency};
use songline_events::refill::Filling;
use songline_model::Time;

use super::{Agent, ProposeError};

/// Chores that operators ask for.
pub trait Upkeep: Agent {
    /// Writes a snapshot archive of the newest state.
    fn snapshot_save(&self) -> impl Future<Output = Result<SavedArchive, ProposeError>> + Send;

    /// A temporary file without a name, for a body that is too large for memory.
    fn spool(&self) -> std::io::Result<File>;

    /// Replaces the state by that of an archive and returns once the restore is applied. A dry run only verifies the
    /// archive.
    fn snapshot_restore(
        &self,
        archive: File,
        actor: Actor,
        idempotency: Option<Idempotency>,
        choices: RestoreChoices,
    ) -> impl Future<Output = Result<RestoreReport, RestoreError>> + Send;

    /// Garbage collection of everything that may be dropped, whatever its age.
    fn force_gc(&self, actor: Actor) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Recomputes all job summaries. Does nothing when a request with the key of `idempotency` was applied before.
    fn reconcile_summaries(
        &self,
        actor: Actor,
        idempotency: Option<Idempotency>,
    ) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Index in the reset file, with which an operator with access to this server allows a second ACL bootstrap; 0
    /// when there is no such file.
    fn bootstrap_reset_index(&self) -> u64 {
        0
    }

    /// Stores of this server that are being refilled from its log.
    fn refillings(&self) -> Vec<Refilling> {
        Vec::new()
    }
}

/// A store that was lost and is being refilled from the log.
#[derive(Debug, Clone, Copy)]
pub struct Refilling {
    /// Name of the store: `events` or `touches`.
    pub store: &'static str,
    /// Progress of the fill.
    pub filling: Filling,
    /// Start of the fill; `None` while it waits to begin.
    pub since: Option<Time>,
}

/// A freshly written snapshot archive.
#[derive(Debug)]
pub struct SavedArchive {
    /// Positioned at its start. It has no name, so closing it deletes it.
    pub file: File,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: [u8; 32],
}

/// Content of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestoreReport {
    /// Id of the archive, as in `meta.json`.
    #[serde(rename = "ID")]
    pub id: String,
    /// Index of the archived state, as users of its cluster saw it.
    pub index: u64,
    /// Raft term of the entry at that index.
    pub term: u64,
    /// Whether the archive was only verified, not restored.
    pub dry_run: bool,
    /// Digest over all tables.
    pub digest: String,
    /// One for each table.
    pub tables: Vec<RestoredTable>,
    /// Contents of the other cluster that an archive of Nomad does not bring. Left out for an archive of ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_carried: Vec<NotCarried>,
}

/// Content of a cluster of Nomad that an import leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NotCarried {
    /// The content.
    pub what: String,
    /// Number of objects; 0 when it is unknown.
    pub count: u64,
    /// Reason, and remedy where there is one.
    pub reason: String,
}

/// Choices of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RestoreChoices {
    /// Only verify the archive and describe its content.
    pub dry_run: bool,
    /// Leave out records of unknown types of an archive of Nomad. Otherwise they are refused.
    pub skip_unknown: bool,
}

/// A table of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestoredTable {
    /// Name of the table.
    pub name: &'static str,
    /// Number of rows.
    pub rows: usize,
    /// Digest over the rows.
    pub digest: String,
}

/// Failure of a restore.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RestoreError {
    /// The file is no archive, or a damaged one.
    #[error("failed to restore from snapshot: {0}")]
    Archive(String),
    /// The restore could not be written to the log.
    #[error(transparent)]
    Propose(#[from] ProposeError),
}
