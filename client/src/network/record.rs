//! The record of an allocation's network: a directory of the agent's state, with what was made so far, the messages of
//! plugins, and the files that tasks mount. It is written before each step, and removed after the network is gone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use songline_model::{AllocNetworkStatus, Str};

use super::plugins::Attachment;
use crate::driver::AllocNetwork;
use crate::executor::place::write_json;

const RECORD: &str = "record.json";
/// Messages of the plugins. Its lock is the lock of the allocation's network.
const LOG: &str = "plugins.log";
/// Poll interval of a lock.
const LOCK_POLL: Duration = Duration::from_millis(20);
/// Longest wait for a lock: longer than one plugin takes, which an agent that died may have left running.
const LOCK_MAX: Duration = Duration::from_secs(90);

/// Parts of an allocation's network that exist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// Whether anything may have been made.
    pub begun: bool,
    /// Driver that makes the namespace; `None` is the agent.
    pub owner: Option<Str>,
    /// The namespace, once it is made.
    pub network: Option<AllocNetwork>,
    /// The network that the namespace is added to, before it is.
    pub attachment: Option<Attachment>,
    /// Result of the plugins so far.
    pub result: Option<Value>,
    /// Interface and address, once the plugins are done.
    pub status: Option<AllocNetworkStatus>,
    /// Whether tasks may use the network.
    pub complete: bool,
}

/// The locked directory of an allocation's network. Dropping it unlocks it, once plugins that were started have ended.
pub(super) struct Held {
    dir: PathBuf,
    log: File,
}

impl Held {
    /// Locks the directory, and makes it first. Waits for others that hold it.
    pub async fn make(dir: PathBuf) -> io::Result<Self> {
        loop {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            match Self::existing(dir.clone()).await? {
                Some(held) => return Ok(held),
                // Another has removed it while this one waited.
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Locks the directory; `None` if there is none.
    pub async fn existing(dir: PathBuf) -> io::Result<Option<Self>> {
        let path = dir.join(LOG);
        let opened = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&path);
        let log = match opened {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let begun = tokio::time::Instant::now();
        while let Err(error) = flock(&log, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if begun.elapsed() > LOCK_MAX {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a plugin of an earlier agent still runs"));
            }
            tokio::time::sleep(LOCK_POLL).await;
        }
        // The one that held it may have removed it.
        let same = fs::metadata(&path).is_ok_and(|at| log.metadata().is_ok_and(|own| own.ino() == at.ino()));
        Ok(same.then_some(Self { dir, log }))
    }

    /// The file that plugins write their messages to, and that is locked.
    pub fn log(&self) -> &File {
        &self.log
    }

    /// Path of a file that tasks mount.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file that tasks mount. A file that is there stays the same file: tasks may have it mounted.
    pub fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.file(name);
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o644).open(&path)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        Ok(path)
    }

    /// Reads the record; an empty one if none was written.
    pub fn read(&self) -> io::Result<Record> {
        match fs::read(self.dir.join(RECORD)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the record.
    pub fn put(&self, record: &Record) -> io::Result<()> {
        write_json(&self.dir.join(RECORD), record)
    }

    /// Removes the directory.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.dir)
    }
}

/// The allocations that have a record below this directory.
pub(super) fn all(dir: &Path) -> Vec<songline_model::AllocId> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}
