//! Why a log cannot be opened, read or written, why it does not change its members, and why it has failed.

use std::io;
use std::path::{Path, PathBuf};

use crate::members::NodeId;

/// Why a log directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused something.
    #[error("{doing} {}", path.display())]
    Io {
        /// What was being done, as in "reading".
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// The operating system's answer.
        #[source]
        source: io::Error,
    },
    /// Another process has the log open.
    #[error("the log in {} is in use by another process", dir.display())]
    Locked {
        /// The log's directory.
        dir: PathBuf,
    },
    /// Something that was written is not there any more, or is not what was written.
    #[error(
        "the log is damaged: {what} ({}). Acknowledged entries may be lost from index {index} on, so this server \
         must not go on with it. Keep the directory for inspection and start again with an empty one: a server of \
         a cluster is then filled by the others; a single server is restored from its newest snapshot archive",
        path.display()
    )]
    Damaged {
        /// The file in which it was noticed.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// The first index that cannot be trusted.
        index: u64,
    },
    /// Written by a newer version.
    #[error("the log in {} has format {found}; this version knows {known}", dir.display())]
    Format {
        /// The log's directory.
        dir: PathBuf,
        /// The format of the directory.
        found: u32,
        /// The newest format this version knows.
        known: u32,
    },
    /// The state machine could not take the checkpoint or refused to go on.
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

/// Why entries cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Retention has dropped what was asked for.
    #[error("index {wanted} is below the oldest retained index {oldest}")]
    BelowOldest {
        /// The first index asked for.
        wanted: u64,
        /// The first index that can be read.
        oldest: u64,
    },
    /// The files could not be read.
    #[error("reading the log")]
    Io(#[from] io::Error),
}

/// Why a proposal, or a read that must be current, got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Only the leader can do this; nothing was written.
    #[error("this server is not the leader")]
    NotLeader {
        /// Who is, if known.
        leader: Option<NodeId>,
        /// Where it is reached, if known.
        address: Option<String>,
    },
    /// Longer than an entry may be; nothing was written.
    #[error("a command of {bytes} bytes is longer than {bytes_max}")]
    TooLong {
        /// Length of the command.
        bytes: usize,
        /// Longest command, in bytes.
        bytes_max: usize,
    },
    /// Leadership was lost on the way: the proposal may or may not be in the log.
    #[error("leadership was lost before the outcome was known")]
    OutcomeUnknown,
    /// Consensus does not run any more, so the proposal may or may not be in the log.
    #[error("the log has stopped: {0}")]
    Stopped(String),
    /// Consensus does not run until the disk works again; nothing was written.
    #[error(transparent)]
    Disk(#[from] Failure),
}

/// Why the membership was not changed, or the leadership not moved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// Only the leader can.
    #[error("this server is not the leader")]
    NotLeader,
    /// The text says why; the change may or may not come about.
    #[error("{0}")]
    Failed(String),
}

/// Why a checkpoint was not made.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The log has stopped.
    #[error(transparent)]
    Log(#[from] ProposeError),
    /// The file could not be written; the log goes on without it.
    #[error("writing a checkpoint")]
    Write(#[source] io::Error),
}

/// Consensus has failed and does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A file could not be written or read. `Log::reopen` goes on when that has passed.
    #[error("the disk that holds {} has failed: {why}", dir.display())]
    Disk {
        /// The log's directory.
        dir: PathBuf,
        /// What the operating system said.
        why: String,
    },
    /// For good. The process should exit with an error, for a supervisor to start it anew.
    #[error("consensus has failed: {0}")]
    Consensus(String),
}
