//! Why a log cannot be opened or read. Why a proposal fails is `log::ProposeError`.

use std::io;
use std::path::{Path, PathBuf};

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
