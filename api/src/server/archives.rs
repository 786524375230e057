//! Saved and restored archives of the state.

use std::fs::File;

use serde::Serialize;

use super::ProposeError;

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
