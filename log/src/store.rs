//! The log on disk: entries, vote, committed hint and floor in one directory, without consensus. One writer makes every
//! change in call order, so that many appends share one sync.

mod scan;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub use scan::TornTail;
pub(crate) use scan::{Scan, scan};

use crate::cache::Cache;
use crate::disk::{Disk, Lock, RealDisk};
use crate::error::OpenError;
use crate::position::Edge;
use crate::record::{PAYLOAD_BYTES_MAX, Record};
use crate::segment::Segment;
use crate::slots::{Names, SlotFile};
use scan::{Mark, encode_floor, encode_format};
use writer::{Change, Queue, TaskWriter, Writer};

/// Configuration of a store.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Space reserved for one segment file, in bytes.
    pub segment_bytes: u64,
    /// Budget of the entry cache, in bytes. Entries not yet on disk are cached regardless.
    pub cache_bytes: usize,
    /// Idle time without appends after which the high-water mark is written.
    pub mark_after_idle: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, cache_bytes: 64 << 20, mark_after_idle: Duration::from_millis(100) }
    }
}

/// Called once by the writer with the outcome, when a change is on disk or has failed.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Description of one segment file, for users of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Path of the file.
    pub path: PathBuf,
    /// Index of the first entry.
    pub first: u64,
    /// Edge after the last entry.
    pub end: Edge,
    /// Bytes of records, including the segment's header.
    pub bytes: u64,
    /// Creation time, in milliseconds since 1970.
    pub created_ms: u64,
}

impl From<&Segment> for SegmentInfo {
    fn from(segment: &Segment) -> Self {
        Self {
            path: segment.path.clone(),
            first: segment.first(),
            end: segment.end,
            bytes: segment.end_offset,
            created_ms: segment.header.created_ms,
        }
    }
}

/// State shared by callers and the writer.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    queue: Queue,
}

#[derive(Debug)]
struct State {
    /// Written segments, oldest first. Changed only by the writer.
    segments: Vec<Segment>,
    cache: Cache,
    floor: Edge,
    /// Index of the first entry the log ever had, if that is above the floor.
    begin: u64,
    /// The end of the log as callers see it, including entries not yet on disk.
    last: Edge,
    vote: Vec<u8>,
    committed: Edge,
    committed_file: SlotFile,
    /// Reason why the store accepts no more writes.
    failed: Option<String>,
}

/// An open log directory. Dropping it closes it cleanly.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    writer: Mutex<Option<WriterHandle>>,
    /// Held while the log is open, so that no other process opens it.
    lock: Mutex<Lock>,
    dir: PathBuf,
}

/// The running writer.
#[derive(Debug)]
enum WriterHandle {
    Thread(std::thread::JoinHandle<()>),
    /// For a disk whose calls do not block.
    Task(TaskWriter),
}

/// Findings and repairs of opening a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// A tail that was never acknowledged and was cut off.
    pub torn: Option<TornTail>,
    /// The committed hint: entries below it were committed.
    pub committed: Edge,
}

impl Store {
    /// Opens the log in `dir`, or creates an empty one. Damage is an error; a torn tail is cut off.
    pub fn open(dir: &Path, config: StoreConfig) -> Result<(Self, Opened), OpenError> {
        Self::open_on(Arc::new(RealDisk), dir, config)
    }

    /// Like `open`, on any disk. On one whose calls do not block it must be called within a tokio runtime.
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, config: StoreConfig) -> Result<(Self, Opened), OpenError> {
        disk.create_dir_all(dir).map_err(OpenError::io("creating", dir))?;
        let names = Names { dir: dir.to_owned() };
        let lock = disk.lock(&names.lock()).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => OpenError::Locked { dir: dir.to_owned() },
            _ => OpenError::io("opening", &names.lock())(source),
        })?;
        if !scan::exists(disk.as_ref(), dir)? {
            create(disk.as_ref(), &names).map_err(OpenError::io("creating a log in", dir))?;
        }
        let scan = scan(disk.as_ref(), dir, true)?;
        let opened = Opened { torn: scan.torn.clone(), committed: scan.committed };
        let store =
            Self::start(disk, &names, config, scan, lock).map_err(OpenError::io("repairing the log in", dir))?;
        Ok((store, opened))
    }

    fn start(disk: Arc<dyn Disk>, names: &Names, config: StoreConfig, scan: Scan, lock: Lock) -> io::Result<Self> {
        let last = scan.last();
        for path in &scan.leftovers {
            disk.remove(path)?;
        }
        disk.sync_dir(&names.dir)?;
        if let Some(segment) = scan.segments.last() {
            if scan.torn.is_some() {
                segment.clear_tail(config.segment_bytes)?;
            }
            // Entries that a killed process wrote but did not sync count from now on, so they have to be on disk.
            segment.write_again(scan.mark.edge.next)?;
        }
        let [mark_slot, vote_slot, committed_slot, floor_slot] = &scan.slots;
        let mut mark_file = SlotFile::open(disk.as_ref(), &names.mark(), mark_slot)?;
        let mark = if scan.mark.edge == last { scan.mark } else { Mark { edge: last, chain: scan.last_chain } };
        if mark != scan.mark {
            mark_file.save(&mark.encode())?;
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                segments: scan.segments,
                cache: Cache::new(last.next, config.cache_bytes),
                floor: scan.floor,
                begin: scan.begin,
                last,
                vote: scan.vote,
                committed: scan.committed,
                committed_file: SlotFile::open(disk.as_ref(), &names.committed(), committed_slot)?,
                failed: None,
            }),
            queue: Queue::default(),
        });
        let vote_file = SlotFile::open(disk.as_ref(), &names.vote(), vote_slot)?;
        let floor_file = SlotFile::open(disk.as_ref(), &names.floor(), floor_slot)?;
        let waits = disk.waits();
        let writer = Writer {
            disk,
            shared: Arc::clone(&shared),
            dir: names.dir.clone(),
            config,
            nonce: scan.nonce,
            durable: mark,
            marked: mark,
            mark_file,
            vote_file,
            floor_file,
            buffer: Vec::new(),
        };
        let writer = if waits {
            WriterHandle::Thread(std::thread::Builder::new().name("log-writer".to_owned()).spawn(move || writer.run())?)
        } else {
            let writer = TaskWriter::new(writer);
            tokio::spawn(writer.clone().run());
            WriterHandle::Task(writer)
        };
        Ok(Self { shared, writer: Mutex::new(Some(writer)), lock: Mutex::new(lock), dir: names.dir.clone() })
    }

    /// Appends entries, which must follow the last one; the first entry ever may have any index. The entries can be
    /// read when this returns. `done` is called when they are on disk, or with the error that prevents it for good.
    pub fn append(&self, records: Vec<Record>, done: Done) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.check()?;
        if let Some(first) = records.first().map(|record| record.position.index)
            && state.last == Edge::default()
            && first > 0
        {
            state.begin = first;
            state.last.next = first;
            state.cache.purge(first);
            self.shared.queue.push(Change::Begin(first));
        }
        for record in &records {
            let fits = record.payload.len() <= PAYLOAD_BYTES_MAX;
            if record.position.index != state.last.next || record.position.term < state.last.term || !fits {
                let what = format!("entry {} does not fit behind {:?}", record.position, state.last);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
            state.last = Edge::after(record.position);
            state.cache.push(record.clone());
        }
        // The lock is still held: the queue must have the order of the entries.
        self.shared.queue.push(Change::Append(records, done));
        Ok(())
    }

    /// Removes entries from `next` on.
    pub fn truncate(&self, next: u64, done: Done) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.check()?;
        if next < state.last.next {
            state.last = state.edge_at(next)?;
            state.cache.truncate(next);
        }
        self.shared.queue.push(Change::Truncate(next, done));
        Ok(())
    }

    /// Removes entries below `floor`, which may lie after the last entry. Disk space is freed by whole segments.
    pub fn purge(&self, floor: Edge, done: Done) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.check()?;
        if floor.next > state.floor.next {
            state.floor = floor;
            state.cache.purge(floor.next);
            if floor.next > state.last.next {
                state.last = floor;
            }
        }
        self.shared.queue.push(Change::Purge(floor, done));
        Ok(())
    }

    /// Saves the vote, encoded by the caller.
    pub fn save_vote(&self, vote: Vec<u8>, done: Done) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.check()?;
        state.vote.clone_from(&vote);
        self.shared.queue.push(Change::Vote(vote, done));
        Ok(())
    }

    /// The last saved vote; empty before the first save.
    pub fn vote(&self) -> Vec<u8> {
        self.shared.state.lock().vote.clone()
    }

    /// Records how far the log is committed. This is a hint: it is not synced, and an older one does no harm.
    pub fn save_committed(&self, committed: Edge) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.check()?;
        state.committed = committed;
        // Other servers may have committed entries that are not on this disk yet. If the hint survived a crash that
        // lost them, the lost tail would look like damage.
        let durable = state.segments.last().map_or(state.floor, |segment| segment.end);
        let hint = if committed.next > durable.next { durable } else { committed };
        state.committed_file.hint(&hint.encode())
    }

    /// The last committed hint.
    pub fn committed(&self) -> Edge {
        self.shared.state.lock().committed
    }

    /// Index of the first entry that can be read, if there is any.
    pub fn oldest(&self) -> u64 {
        self.shared.state.lock().oldest()
    }

    /// The floor: every entry below it has been purged.
    pub fn floor(&self) -> Edge {
        self.shared.state.lock().floor
    }

    /// The end of the log, including entries that are not yet on disk.
    pub fn last(&self) -> Edge {
        self.shared.state.lock().last
    }

    /// The segment files, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.shared.state.lock().segments.iter().map(SegmentInfo::from).collect()
    }

    /// Reads the existing entries of `range`: at least one if there is any, further ones while they fit `bytes_max`.
    pub fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        let mut out = Vec::new();
        let plan = {
            let state = self.shared.state.lock();
            let wanted = range.start.max(state.oldest())..range.end.min(state.last.next);
            if wanted.is_empty() {
                return Ok(out);
            }
            if wanted.start >= state.cache.first() {
                state.cache.read(wanted, bytes_max, &mut out);
                return Ok(out);
            }
            // The files are read without the lock. A concurrent purge removes names, not open files.
            let wanted = wanted.start..wanted.end.min(state.cache.first());
            state.segment_of(wanted.start)?.plan(wanted, bytes_max)
        };
        if let Some(plan) = plan {
            plan.read(&mut out)?;
        }
        Ok(out)
    }

    /// Makes all queued changes at once if the writer is a task, for a caller that cannot wait for the task. Does
    /// nothing if the writer has a thread.
    pub(crate) fn settle(&self) {
        if let Some(WriterHandle::Task(writer)) = &*self.writer.lock() {
            writer.settle();
        }
    }

    /// The reason why the store accepts no more writes, if that is so.
    pub fn failure(&self) -> Option<String> {
        self.shared.state.lock().failed.clone()
    }

    /// Stops all writes, because of an error that a reader met.
    pub(crate) fn give_up(&self, error: &io::Error) {
        let mut state = self.shared.state.lock();
        if state.failed.is_none() {
            tracing::error!(%error, dir = %self.dir.display(), "the log cannot be used any more");
            state.failed = Some(format!("the log cannot be used any more: {error}"));
        }
    }

    /// Directory of the log.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the high-water mark and stops the writer. Later changes fail; entries can still be read.
    pub fn close(&self) {
        self.shared.queue.push(Change::Close);
        let handle = self.writer.lock().take();
        match handle {
            Some(WriterHandle::Thread(handle)) => {
                if handle.join().is_err() {
                    tracing::error!("the log's writer thread panicked");
                }
            }
            // The writer task ends when it runs next.
            Some(WriterHandle::Task(_)) | None => {}
        }
        self.lock.lock().release();
    }

    /// Stops like a killed process: no mark is written.
    #[cfg(test)]
    pub(crate) fn crash(self) {
        self.shared.queue.push(Change::Crash);
        let handle = self.writer.lock().take();
        match handle.expect("not yet closed") {
            WriterHandle::Thread(handle) => handle.join().expect("the writer does not panic"),
            WriterHandle::Task(_) => {}
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.writer.get_mut().is_some() {
            self.close();
        }
    }
}

impl State {
    fn oldest(&self) -> u64 {
        self.floor.next.max(self.begin)
    }

    fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some(why) => Err(io::Error::other(why.clone())),
            None => Ok(()),
        }
    }

    fn segment_of(&self, index: u64) -> io::Result<&Segment> {
        let after = self.segments.partition_point(|segment| segment.first() <= index);
        after
            .checked_sub(1)
            .and_then(|i| self.segments.get(i))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no segment holds entry {index}")))
    }

    /// The edge before entry `next`, which is in the log.
    fn edge_at(&self, next: u64) -> io::Result<Edge> {
        if next <= self.oldest() {
            return Ok(self.floor);
        }
        let mut out = Vec::new();
        if next > self.cache.first() {
            self.cache.read(next - 1..next, 0, &mut out);
        } else if let Some(plan) = self.segment_of(next - 1)?.plan(next - 1..next, 0) {
            plan.read(&mut out)?;
        }
        let last = out.first().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the entry is not there"))?;
        Ok(Edge::after(last.position))
    }
}

/// Creates an empty log. The format file is written last: without it there is no log yet.
fn create(disk: &dyn Disk, names: &Names) -> io::Result<()> {
    let zero = Edge::default().encode();
    SlotFile::create(disk, &names.mark(), &Mark::default().encode())?;
    SlotFile::create(disk, &names.vote(), &[])?;
    SlotFile::create(disk, &names.committed(), &zero)?;
    SlotFile::create(disk, &names.floor(), &encode_floor(Edge::default(), 0))?;
    disk.sync_dir(&names.dir)?;
    SlotFile::create(disk, &names.format(), &encode_format(disk.unique(&names.dir)))?;
    disk.sync_dir(&names.dir)?;
    names.dir.parent().map_or(Ok(()), |parent| disk.sync_dir(parent))
}
