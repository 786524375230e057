//! Removes archives that no entry of the log names any more, and files that interrupted restores have left.
//!
//! An archive is needed for as long as the log has an entry that names it: starts, other servers and readers of the
//! past apply the entry. It comes to a server before its entry does, so an archive without an entry is kept for a time.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use songline_commands::{Command, DecodeError, Envelope, Kind};
use songline_log::{Disk, Payload, ReadError};
use songline_model::{Time, with_sources};

use crate::Core;

/// Age below which an archive is never removed: the entry that names it may still be on its way to this server.
const YOUNG: Duration = Duration::from_secs(24 * 3600);

/// The archives that entries of the log name.
#[derive(Debug, Default)]
pub(crate) struct NamedArchives(Mutex<Named>);

#[derive(Debug, Default)]
struct Named {
    /// Index in the Raft log of the newest entry that names an archive, by the archive's digest. `u64::MAX`: the entry
    /// is still to come.
    newest: BTreeMap<String, u64>,
    /// Whether entries that an earlier process has applied are included.
    is_complete: bool,
}

/// Reasons why unneeded archives could not be removed. It is tried again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnneededError {
    #[error("looking through the directory of archives")]
    Files(#[from] io::Error),
    #[error("reading the log")]
    Log(#[from] ReadError),
    #[error("reading an entry of the log")]
    Entry(#[from] DecodeError),
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl NamedArchives {
    /// An archive is about to come, and its entry after it: it is kept until then.
    pub(crate) fn expect(&self, digest: &str) {
        self.0.lock().newest.insert(digest.to_owned(), u64::MAX);
    }

    /// The entry that is being applied names an archive.
    pub(crate) fn note(&self, digest: &str, raft_index: u64) {
        self.0.lock().newest.insert(digest.to_owned(), raft_index);
    }

    /// An entry that an earlier process has applied names an archive.
    fn note_older(&self, digest: &str, raft_index: u64) {
        let mut named = self.0.lock();
        let newest = named.newest.entry(digest.to_owned()).or_default();
        *newest = raft_index.max(*newest);
    }
}

/// When unneeded archives were removed last.
#[derive(Debug, Default)]
pub(crate) struct Tidying {
    /// Raft index of the log's last entry when the server started: entries up to it may name archives that are still to
    /// be applied.
    last_at_start: Option<u64>,
    /// Oldest index of the log at the last removal.
    oldest: Option<u64>,
}

impl Tidying {
    /// Removes unneeded archives if none were removed since the server's start, or if the log was purged.
    pub(crate) async fn look(&mut self, core: &Arc<Core>) {
        let log = core.log();
        let applied = log.applied().map_or(0, |position| position.index);
        let last = *self.last_at_start.get_or_insert_with(|| applied + log.unapplied());
        let oldest = log.oldest_index();
        if applied < last || self.oldest == Some(oldest) {
            return;
        }
        // One purge behind, so that a slow server can fetch the archive of an entry that it has just got. The first look
        // removes only what no entry has named.
        let below = self.oldest.replace(oldest).unwrap_or(0);
        let own = Arc::clone(core);
        let removed = core.facts.disk.blocking(move || own.remove_unneeded_archives(below)).await;
        match removed.map_err(UnneededError::from).and_then(|removed| removed) {
            Ok(removed) => {
                if removed > 0 {
                    tracing::info!(removed, "archives that no entry of the log names were removed");
                }
            }
            // Tried again after the next purge: a damaged log would be read again and again.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "unneeded archives could not be removed");
            }
        }
    }
}

impl Core {
    /// Removes the archives that no entry from the Raft index `oldest` on names, unless they are young. Blocks; reads
    /// the log once if any could be unneeded. Returns their number.
    pub(crate) fn remove_unneeded_archives(&self, oldest: u64) -> Result<usize, UnneededError> {
        let disk = &*self.facts.disk;
        let old = old_archives(&self.archives_dir(), disk, self.world().wall())?;
        if old.is_empty() {
            return Ok(0);
        }
        self.complete_names()?;
        // Locked, so that no archive that is about to come again is removed.
        let named = self.stores.named_archives.0.lock();
        let mut removed = 0;
        for (digest, path) in old {
            if named.newest.get(&digest).is_none_or(|index| *index < oldest) {
                disk.remove(&path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Looks through the log for archives that entries of earlier processes name.
    fn complete_names(&self) -> Result<(), UnneededError> {
        let names = &self.stores.named_archives;
        if names.0.lock().is_complete {
            return Ok(());
        }
        let log = self.log();
        let last = log.applied().map_or(0, |position| position.index);
        for entry in log.read(log.oldest_index()..last + 1)? {
            if self.shutdown.is_cancelled() {
                return Err(UnneededError::ShuttingDown);
            }
            let entry = entry?;
            let Payload::Command(bytes) = &entry.payload else { continue };
            if Envelope::kind_of(bytes)? == Kind::Restore
                && let Command::Restore(restore) = Envelope::decode(bytes)?.command
            {
                names.note_older(&restore.digest, entry.position.index);
            }
        }
        names.0.lock().is_complete = true;
        Ok(())
    }
}

/// Removes files that an earlier process was still writing. To be called before this one writes any.
pub(crate) fn remove_unfinished(server_dir: &Path, disk: &dyn Disk) {
    // Most servers have no such directory.
    let files = disk.list(&server_dir.join("archives")).unwrap_or_default();
    for path in files.into_iter().filter(|path| path.extension() == Some(OsStr::new("tmp"))) {
        if let Err(error) = disk.remove(&path) {
            let (path, error) = (path.display(), with_sources(&error));
            tracing::warn!(%path, error, "an unfinished archive could not be removed");
        }
    }
}

/// Makes an archive young again: another entry is going to name it.
pub(crate) fn touch(archive: &Path, now: Time) -> io::Result<()> {
    File::open(archive)?.set_modified(system_time(now))
}

/// Digests and paths of the archives that are not young.
fn old_archives(dir: &Path, disk: &dyn Disk, now: Time) -> io::Result<Vec<(String, PathBuf)>> {
    let files = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut old = Vec::new();
    for path in files.into_iter().filter(|path| path.extension() == Some(OsStr::new("state"))) {
        let age = system_time(now).duration_since(std::fs::metadata(&path)?.modified()?).unwrap_or_default();
        if let Some(digest) = path.file_stem().and_then(OsStr::to_str).map(str::to_owned)
            && age >= YOUNG
        {
            old.push((digest, path));
        }
    }
    Ok(old)
}

fn system_time(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(time.nanos()).unwrap_or(0))
}
