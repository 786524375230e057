//! Errors of the log: opening, reading, proposing, changing members, and the failure of consensus.

use std::io;
use std::path::{Path, PathBuf};

use crate::members::NodeId;

/// Error of opening a log directory.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused an operation.
    #[error("{doing} {}", path.display())]
    Io {
        /// The operation, as in "reading".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// Another process has the log open.
    #[error("the log in {} is in use by another process", dir.display())]
    Locked {
        /// The log's directory.
        dir: PathBuf,
    },
    /// Something that was written is missing or differs from what was written.
    #[error(
        "the log is damaged: {what} ({}). Acknowledged entries may be lost from index {index} on, so this server \
         must not go on with it. Keep the directory for inspection and start again with an empty one: a server of \
         a cluster is then filled by the others; a single server is restored from its newest snapshot archive",
        path.display()
    )]
    Damaged {
        /// The file in which the damage was found.
        path: PathBuf,
        /// Description of the damage.
        what: String,
        /// The first index that cannot be trusted.
        index: u64,
    },
    /// The log was written by a newer version.
    #[error("the log in {} has format {found}; this version knows {known}", dir.display())]
    Format {
        /// The log's directory.
        dir: PathBuf,
        /// The format of the directory.
        found: u32,
        /// The newest format this version knows.
        known: u32,
    },
    /// The state machine could not install the checkpoint or apply an entry.
    #[error("rebuilding the state from the log")]
    Rebuild(#[source] io::Error),
    /// Consensus could not start, or the single member did not become leader in time.
    #[error("starting consensus: {0}")]
    Start(String),
}

impl OpenError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn damaged(path: &Path, index: u64, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into(), index }
    }
}

/// Error of reading entries.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Retention has dropped the requested entries.
    #[error("index {wanted} is below the oldest retained index {oldest}")]
    BelowOldest {
        /// First index requested.
        wanted: u64,
        /// First index that can be read.
        oldest: u64,
    },
    /// The files could not be read.
    #[error("reading the log")]
    Io(#[from] io::Error),
}

/// Error of a proposal or of a read barrier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Only the leader can do this. Nothing was written.
    #[error("this server is not the leader")]
    NotLeader {
        /// The leader, if known.
        leader: Option<NodeId>,
        /// The leader's address, if known.
        address: Option<String>,
    },
    /// The command is longer than an entry may be. Nothing was written.
    #[error("a command of {bytes} bytes is longer than {bytes_max}")]
    TooLong {
        /// Length of the command, in bytes.
        bytes: usize,
        /// Longest command, in bytes.
        bytes_max: usize,
    },
    /// Leadership was lost while the proposal was under way: it may or may not be in the log.
    #[error("leadership was lost before the outcome was known")]
    OutcomeUnknown,
    /// Consensus has stopped: the proposal may or may not be in the log.
    #[error("the log has stopped: {0}")]
    Stopped(String),
    /// Consensus does not run until the disk works again. Nothing was written.
    #[error(transparent)]
    Disk(#[from] Failure),
}

/// Error of a membership change or a leadership transfer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// Only the leader can change members.
    #[error("this server is not the leader")]
    NotLeader,
    /// The change failed; the text says why. The change may or may not take effect.
    #[error("{0}")]
    Failed(String),
}

/// Error of writing a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The log has stopped.
    #[error(transparent)]
    Log(#[from] ProposeError),
    /// The file could not be written. The log goes on without the checkpoint.
    #[error("writing a checkpoint")]
    Write(#[source] io::Error),
}

/// Consensus has failed and does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A file could not be written or read. Once the disk works again, `Log::reopen` continues.
    #[error("the disk that holds {} has failed: {why}", dir.display())]
    Disk {
        /// The log's directory.
        dir: PathBuf,
        /// The operating system's error.
        why: String,
    },
    /// Permanent failure. The process should exit with an error, so that a supervisor restarts it.
    #[error("consensus has failed: {0}")]
    Consensus(String),
}
