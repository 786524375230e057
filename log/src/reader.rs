//! Reads the files of a log without changing them and without consensus: for inspection and verification. A running
//! server may have the log open; its newest group may then look torn.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::{self, Checkpoint, CheckpointInfo};
use crate::disk::RealDisk;
use crate::error::{OpenError, ReadError};
use crate::history::{Entries, Source};
use crate::position::Edge;
use crate::record::Record;
use crate::slots::Names;
use crate::store::{Scan, SegmentInfo, TornTail, scan};

/// A log directory that was read completely and found sound.
#[derive(Debug)]
pub struct Reader {
    scan: Arc<Scan>,
    checkpoints: PathBuf,
}

/// Findings of reading a whole log directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Index of the oldest entry that can be read.
    pub oldest: u64,
    /// The end of the log.
    pub last: Edge,
    /// The high-water mark. Equal to `last` after a clean close.
    pub mark: Edge,
    /// The committed hint: entries below it are committed.
    pub committed: Edge,
    /// Number of entries, including those below `oldest` in a kept segment.
    pub entries: u64,
    /// Number of groups that the entries were written in.
    pub groups: u64,
    /// The segment files, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// Bytes after the last entry that were never acknowledged.
    pub torn: Option<TornTail>,
    /// Files that a crash left behind; the next start removes them.
    pub leftovers: Vec<PathBuf>,
    /// Small files with only one sound and current copy of two.
    pub single_copies: Vec<&'static str>,
    /// The checkpoints, newest first.
    pub checkpoints: Vec<CheckpointInfo>,
}

impl Reader {
    /// Reads the log below `dir`, the same directory as in `Config`, and checks every byte of its entries.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let log = dir.join("log");
        // A running server may drop or begin a file during the scan. Real damage is there in a second scan too.
        let found = match scan(&RealDisk, &log, false) {
            Err(OpenError::Damaged { .. } | OpenError::Io { .. }) => scan(&RealDisk, &log, false),
            first => first,
        };
        let scan = Arc::new(found?);
        Ok(Self { scan, checkpoints: dir.join("checkpoints") })
    }

    /// Whether a process has the log below `dir` open. Only asks: no file is made or written, and the lock is released
    /// at once, so that a server can start meanwhile.
    pub fn is_in_use(dir: &Path) -> io::Result<bool> {
        let file = match File::open(Names { dir: dir.join("log") }.lock()) {
            Ok(file) => file,
            // Without the file the log was never opened.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The findings. Reads the checkpoints completely.
    pub fn report(&self) -> io::Result<Report> {
        let mut checkpoints = Vec::new();
        for path in checkpoint::list(&RealDisk, &self.checkpoints)? {
            let position = Checkpoint::verify(&RealDisk, &path).map(|checkpoint| checkpoint.meta.position);
            checkpoints.push(CheckpointInfo { path, position: position.map_err(|error| error.to_string()) });
        }
        let scan = &self.scan;
        Ok(Report {
            oldest: scan.oldest(),
            last: scan.last(),
            mark: scan.mark.edge,
            committed: scan.committed,
            entries: scan.entries,
            groups: scan.groups,
            segments: scan.segments.iter().map(SegmentInfo::from).collect(),
            torn: scan.torn.clone(),
            leftovers: scan.leftovers.clone(),
            single_copies: scan.single_copies.clone(),
            checkpoints,
        })
    }

    /// Content of a checkpoint, verified.
    pub fn checkpoint(&self, path: &Path) -> io::Result<impl io::Read + use<>> {
        Checkpoint::verify(&RealDisk, path)?.content(&RealDisk)
    }

    /// Index of the oldest entry that can be read.
    pub fn oldest_index(&self) -> u64 {
        self.scan.oldest()
    }

    /// The end of the log.
    pub fn last(&self) -> Edge {
        self.scan.last()
    }

    /// Entries below this edge are known to be committed. Later entries may be on this disk only.
    pub fn committed(&self) -> Edge {
        self.scan.committed
    }

    /// Entries of `range`, in order.
    pub fn entries(&self, range: Range<u64>) -> Result<Entries, ReadError> {
        Entries::new(Arc::clone(&self.scan) as Arc<dyn Source>, range)
    }
}

impl Source for Scan {
    fn oldest(&self) -> u64 {
        Scan::oldest(self)
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        let mut out = Vec::new();
        let next = self.segments.partition_point(|segment| segment.first() <= range.start);
        let segment = next.checked_sub(1).and_then(|i| self.segments.get(i));
        if let Some(plan) = segment.and_then(|segment| segment.plan(range, bytes_max)) {
            plan.read(&mut out)?;
        }
        Ok(out)
    }
}
