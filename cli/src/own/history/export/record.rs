//! `_progress.json`, the record of an export: what it is an export of, and how far it is. Files of a commit that the
//! record does not reach are removed before an export goes on.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Tried};

const NAME: &str = "_progress.json";
/// Name of the record while it is written.
const UNFINISHED: &str = "._progress.json.tmp";
const VERSION: u32 = 1;

/// Arguments that must be the same each time an export goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) format: String,
    pub(super) region: String,
    pub(super) namespace: String,
    pub(super) topics: Vec<String>,
    pub(super) filter: String,
    pub(super) from: String,
}

impl Asked {
    /// The first argument that differs: its name, its value here, and the other's.
    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let pairs = [
            ("format", self.format.clone(), other.format.clone()),
            ("region", self.region.clone(), other.region.clone()),
            ("namespace", self.namespace.clone(), other.namespace.clone()),
            ("topic", self.topics.join(","), other.topics.join(",")),
            ("filter", self.filter.clone(), other.filter.clone()),
            ("from", self.from.clone(), other.from.clone()),
        ];
        pairs.into_iter().find(|(_, ours, theirs)| ours != theirs)
    }
}

/// Indexes whose events were no longer kept, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    version: u32,
    #[serde(flatten)]
    asked: Asked,
    /// Every wanted event up to this index is in the files, but for the gaps.
    last_index: u64,
    gaps: Vec<Gap>,
}

/// The directory of an export.
pub(super) struct Store {
    dir: PathBuf,
    record: Record,
    is_new: bool,
    /// Locked: one export at a time writes to the directory.
    _lock: File,
}

impl Store {
    /// Opens a directory that is empty or holds an export with the same arguments.
    ///
    /// # Errors
    /// The directory has other files, an export with other arguments, or an export that is running.
    pub(super) fn open(dir: &Path, asked: Asked) -> Result<Self, Failure> {
        let shown = dir.display();
        std::fs::create_dir_all(dir).tried(&format!("Error creating {shown}"))?;
        let lock = File::open(dir).tried(&format!("Error opening {shown}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Failure::new(format!("Another export writes to {shown}: wait for its end")));
            }
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(Failure::of(&format!("Error locking {shown}"), error));
            }
        }
        let before = read(dir)?;
        remove_unfinished(dir).tried(&format!("Error cleaning {shown}"))?;
        let is_new = before.is_none();
        let record = match before {
            None => Record { version: VERSION, asked, last_index: 0, gaps: Vec::new() },
            Some(record) => {
                if let Some((name, ours, theirs)) = record.asked.difference(&asked) {
                    return Err(Failure::new(format!(
                        "{shown} holds an export with -{name} {ours:?}, not {theirs:?}: \
                         repeat its command, or export to another directory"
                    )));
                }
                record
            }
        };
        Ok(Self { dir: dir.to_owned(), record, is_new, _lock: lock })
    }

    /// The last index that is complete. `None`: the export is new.
    pub(super) fn last_index(&self) -> Option<u64> {
        (!self.is_new).then_some(self.record.last_index)
    }

    /// Begins after an index: writes the record of a new export, and removes what an interrupted commit left.
    pub(super) fn begin(&mut self, after: u64) -> Result<(), Failure> {
        if self.is_new {
            self.advance(after)?;
        }
        super::parts::remove_after(&self.dir, after).tried(&format!("Error cleaning {}", self.dir.display()))
    }

    /// Adds a gap. The next [`Store::advance`] writes it.
    pub(super) fn add_gap(&mut self, gap: Gap) {
        self.record.gaps.push(gap);
    }

    /// Writes that every wanted event up to `index` is in files. Durable on return.
    pub(super) fn advance(&mut self, index: u64) -> Result<(), Failure> {
        self.record.last_index = index;
        self.is_new = false;
        let mut text = serde_json::to_string_pretty(&self.record).tried("Error writing the progress")?;
        text.push('\n');
        let temporary = self.dir.join(UNFINISHED);
        let write = || -> std::io::Result<()> {
            let mut file = super::parts::create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&temporary, self.dir.join(NAME))?;
            File::open(&self.dir)?.sync_all()
        };
        write().tried(&format!("Error writing {}", self.dir.join(NAME).display()))
    }
}

/// Removes a record whose write was interrupted: the one before it is still valid.
fn remove_unfinished(dir: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(dir.join(UNFINISHED)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The record in a directory; `None` if the directory is empty.
fn read(dir: &Path) -> Result<Option<Record>, Failure> {
    let path = dir.join(NAME);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = std::fs::read_dir(dir).tried(&format!("Error reading {}", dir.display()))?;
            // The first record of an export that was killed.
            if names.flatten().any(|entry| entry.file_name() != UNFINISHED) {
                return Err(Failure::new(format!(
                    "{} is not empty and has no {NAME}: an export does not mix with other files",
                    dir.display()
                )));
            }
            return Ok(None);
        }
        Err(error) => return Err(Failure::of(&format!("Error reading {}", path.display()), error)),
    };
    let record: Record = serde_json::from_str(&text).tried(&format!("Error reading {}", path.display()))?;
    if record.version != VERSION {
        let version = record.version;
        return Err(Failure::new(format!("{} has version {version}, expected {VERSION}", path.display())));
    }
    Ok(Some(record))
}
