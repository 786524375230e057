//! Files of an export: `topic=TOPIC/day=DAY/part-FIRSTINDEX.FORMAT`. A commit writes all open files to disk and gives
//! them their names; until then they have names that readers of partitions leave out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Format;
use super::columns::Columns;
use super::row::Row;
use crate::client::escape;
use crate::exit::{Failure, Tried};

/// Most bytes of rows between two commits.
const COMMIT_BYTES_MAX: usize = 1 << 30;
/// Most bytes of rows in memory that are not yet in files.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// The files between two commits, one for each topic.
pub(super) struct Parts {
    dir: PathBuf,
    format: Format,
    rows_max: u64,
    day: String,
    open: BTreeMap<String, Part>,
    rows: u64,
    bytes: usize,
}

struct Part {
    temporary: PathBuf,
    path: PathBuf,
    writer: Writer,
}

enum Writer {
    Lines(BufWriter<File>),
    Columns(Box<Columns>),
}

impl Parts {
    pub(super) fn new(dir: &Path, format: Format, rows_max: u64) -> Self {
        let (day, open) = (String::new(), BTreeMap::new());
        Self { dir: dir.to_owned(), format, rows_max, day, open, rows: 0, bytes: 0 }
    }

    /// Whether rows of this day can be added before the next commit.
    pub(super) fn is_of(&self, day: &str) -> bool {
        self.open.is_empty() || self.day == day
    }

    /// Whether it is time for a commit.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.rows_max || self.bytes >= COMMIT_BYTES_MAX
    }

    /// Adds a row to its topic's file. Indexes must not fall.
    pub(super) fn add(&mut self, day: &str, row: Row) -> Result<(), Failure> {
        day.clone_into(&mut self.day);
        self.rows += 1;
        self.bytes += row.bytes();
        let part = match self.open.entry(row.topic().to_owned()) {
            Place::Occupied(place) => place.into_mut(),
            Place::Vacant(place) => {
                let part = Part::begin(&self.dir, self.format, row.topic(), day, row.index);
                place.insert(part.tried(&format!("Error writing to {}", self.dir.display()))?)
            }
        };
        part.tried(|writer| writer.add(row))?;
        if self.open.values().map(|part| part.writer.waiting()).sum::<usize>() > MEMORY_BYTES_MAX
            && let Some(largest) = self.open.values_mut().max_by_key(|part| part.writer.waiting())
        {
            largest.tried(Writer::flush)?;
        }
        Ok(())
    }

    /// Completes the open files and names them. Answers their number. Durable on return.
    pub(super) fn commit(&mut self) -> Result<usize, Failure> {
        let parts = std::mem::take(&mut self.open);
        (self.rows, self.bytes) = (0, 0);
        let count = parts.len();
        for part in parts.into_values() {
            let name = part.path.display().to_string();
            part.finish(&self.dir).tried(&format!("Error writing {name}"))?;
        }
        Ok(count)
    }
}

impl Part {
    fn begin(dir: &Path, format: Format, topic: &str, day: &str, first: u64) -> io::Result<Self> {
        let dir = dir.join(format!("topic={}", escape(topic))).join(format!("day={day}"));
        std::fs::create_dir_all(&dir)?;
        let name = format!("part-{first}.{}", format.name());
        let temporary = dir.join(format!(".{name}.tmp"));
        let file = create(&temporary)?;
        let writer = match format {
            Format::Jsonl => Writer::Lines(BufWriter::new(file)),
            Format::Parquet => Writer::Columns(Box::new(Columns::begin(file)?)),
        };
        Ok(Self { temporary, path: dir.join(name), writer })
    }

    /// Writes, naming the file in a failure.
    fn tried(&mut self, write: impl FnOnce(&mut Writer) -> io::Result<()>) -> Result<(), Failure> {
        write(&mut self.writer).map_err(|error| Failure::of(&format!("Error writing {}", self.path.display()), error))
    }

    /// Completes the file, names it, and writes the directories up to `dir` to disk.
    fn finish(self, dir: &Path) -> io::Result<()> {
        match self.writer {
            Writer::Lines(lines) => lines.into_inner()?.sync_all()?,
            Writer::Columns(columns) => columns.finish()?.sync_all()?,
        }
        std::fs::rename(&self.temporary, &self.path)?;
        for above in self.path.ancestors().skip(1) {
            File::open(above)?.sync_all()?;
            if above == dir {
                break;
            }
        }
        Ok(())
    }
}

impl Writer {
    fn add(&mut self, row: Row) -> io::Result<()> {
        match self {
            Self::Lines(lines) => writeln!(lines, "{}", row.json()),
            Self::Columns(columns) => columns.add(row),
        }
    }

    /// Bytes of rows in memory.
    fn waiting(&self) -> usize {
        match self {
            Self::Lines(_) => 0,
            Self::Columns(columns) => columns.waiting(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Lines(lines) => lines.flush(),
            Self::Columns(columns) => columns.flush(),
        }
    }
}

/// Creates or empties a file that only its owner can read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Removes unfinished files, and files of a commit after `last`, whose record was not written.
pub(super) fn remove_after(dir: &Path, last: u64) -> io::Result<()> {
    for topic in below(dir, "topic=")? {
        for day in below(&topic, "day=")? {
            for file in below(&day, "")? {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let unfinished = name.starts_with(".part-") && name.ends_with(".tmp");
                if unfinished || first_index(&name).is_some_and(|first| first > last) {
                    std::fs::remove_file(&file)?;
                }
            }
        }
    }
    Ok(())
}

/// The paths in a directory whose names begin so.
fn below(dir: &Path, begins: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(begins) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The first index of a file of this name, if it is a part.
fn first_index(name: &str) -> Option<u64> {
    let (first, _) = name.strip_prefix("part-")?.split_once('.')?;
    first.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for topic in below(dir, "").expect("a directory") {
            for day in below(&topic, "").expect("a directory") {
                let files = below(&day, "").expect("a directory");
                names.extend(files.iter().filter_map(|file| Some(file.strip_prefix(dir).ok()?.display().to_string())));
            }
        }
        names.sort();
        names
    }

    fn row(index: u64, topic: &str) -> Row {
        Row::of(index, &json!({ "Topic": topic, "Payload": { topic: { "ID": "x" } } }), None)
    }

    #[test]
    fn parts_get_their_names_with_the_commit_and_later_ones_are_removed() {
        for (format, ending) in [(Format::Jsonl, "jsonl"), (Format::Parquet, "parquet")] {
            let dir = tempfile::tempdir().expect("a directory");
            let mut parts = Parts::new(dir.path(), format, 2);
            parts.add("2026-11-26", row(3, "Job")).expect("a row is written");
            assert!(!parts.is_full() && parts.is_of("2026-11-26") && !parts.is_of("2026-11-27"));
            assert_eq!(names(dir.path()), [format!("topic=Job/day=2026-11-26/.part-3.{ending}.tmp")]);
            parts.add("2026-11-26", row(4, "Node")).expect("a row is written");
            assert!(parts.is_full());
            assert_eq!(parts.commit().expect("files are complete"), 2);
            assert!(parts.is_of("2026-11-27"));
            parts.add("2026-11-27", row(5, "Job")).expect("a row is written");
            drop(parts);
            remove_after(dir.path(), 3).expect("files are removed");
            assert_eq!(names(dir.path()), [format!("topic=Job/day=2026-11-26/part-3.{ending}")]);
        }
    }
}
