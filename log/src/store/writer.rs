//! The writer: takes the queued changes, writes appends as one group, syncs once, then calls their `done`s. A failed
//! write or sync is never repeated, because afterwards it is unknown what is on disk: the store accepts no more writes.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::scan::{Mark, encode_floor};
use super::{Done, Shared, StoreConfig};
use crate::disk::{Disk, DiskFile};
use crate::position::Edge;
use crate::record::{GROUP_BYTES, Record, put_entry, put_group};
use crate::segment::{Header, Segment};
use crate::slots::SlotFile;

/// Longest group written with one sync, in bytes, unless a single append is longer. Further entries go into the next
/// group. This bounds how long the first entry of a group waits for the last.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// One change for the writer, in the order of the calls.
pub(super) enum Change {
    Append(Vec<Record>, Done),
    /// The log is empty and goes on at this index.
    Begin(u64),
    Truncate(u64, Done),
    Purge(Edge, Done),
    Vote(Vec<u8>, Done),
    Close,
    #[cfg(test)]
    Crash,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Vec<Change>>,
    filled: Condvar,
    /// `filled`, for a writer that is a task.
    filled_task: Notify,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Queue {
    pub fn push(&self, change: Change) {
        // The writer takes all changes at once, so that only the first one after that has to wake it.
        let mut waiting = self.waiting.lock();
        let was_empty = waiting.is_empty();
        waiting.push(change);
        drop(waiting);
        if was_empty {
            self.filled.notify_one();
            self.filled_task.notify_one();
        }
    }

    fn drain(&self) -> Vec<Change> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Like `take`, for a task. Waits `delay` before it takes the changes, like a slow disk.
    async fn come(&self, timeout: Option<Duration>, delay: Duration) -> Vec<Change> {
        let filled = async {
            while self.waiting.lock().is_empty() {
                self.filled_task.notified().await;
            }
        };
        match timeout {
            None => filled.await,
            Some(timeout) => {
                if tokio::time::timeout(timeout, filled).await.is_err() {
                    return Vec::new();
                }
            }
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.drain()
    }

    /// Waits for changes and takes all that are queued; empty after `timeout` without any.
    fn take(&self, timeout: Option<Duration>) -> Vec<Change> {
        let mut waiting = self.waiting.lock();
        match timeout {
            None => self.filled.wait_while(&mut waiting, |waiting| waiting.is_empty()),
            Some(timeout) => {
                self.filled.wait_while_for(&mut waiting, |waiting| waiting.is_empty(), timeout);
            }
        }
        std::mem::take(&mut *waiting)
    }
}

pub(super) struct Writer {
    pub disk: Arc<dyn Disk>,
    pub shared: Arc<Shared>,
    pub dir: PathBuf,
    pub config: StoreConfig,
    pub nonce: u64,
    /// Edge on disk, with the crc of its last entry.
    pub durable: Mark,
    /// Content of the mark file.
    pub marked: Mark,
    pub mark_file: SlotFile,
    pub vote_file: SlotFile,
    pub floor_file: SlotFile,
    pub buffer: Vec<u8>,
}

/// Appends that are written together.
#[derive(Default)]
struct Group {
    records: Vec<Record>,
    bytes: usize,
    done: Vec<Done>,
}

impl Writer {
    /// Writes until the store is closed. Blocks, so it has a thread of its own.
    pub fn run(mut self) {
        loop {
            let changes = self.shared.queue.take(self.timeout());
            if self.carry_out_all(changes).is_break() {
                return;
            }
        }
    }

    /// Time to wait for changes before the mark is written; `None`: the mark is current or cannot be written.
    fn timeout(&self) -> Option<Duration> {
        (self.durable != self.marked && self.check().is_ok()).then_some(self.config.mark_after_idle)
    }

    /// Carries out changes in the order of the calls. Appends in a row share groups; any other change first writes the
    /// appends before it, so that what is on disk was the log at some moment.
    fn carry_out_all(&mut self, changes: Vec<Change>) -> ControlFlow<()> {
        if changes.is_empty() {
            let outcome = self.mark();
            self.note_failure(&outcome);
            return ControlFlow::Continue(());
        }
        let mut group = Group::default();
        for change in changes {
            if !matches!(change, Change::Append(..)) {
                self.write(std::mem::take(&mut group));
            }
            match change {
                Change::Append(records, done) => {
                    group.bytes += records.iter().map(Record::encoded_len).sum::<usize>();
                    group.records.extend(records);
                    group.done.push(done);
                    if group.bytes >= GROUP_BYTES_MAX {
                        self.write(std::mem::take(&mut group));
                    }
                }
                Change::Begin(index) => {
                    let outcome = self.check().and_then(|()| self.begin(index));
                    self.note_failure(&outcome);
                }
                Change::Truncate(next, done) => self.carry_out(done, |writer| writer.truncate(next)),
                Change::Purge(floor, done) => self.carry_out(done, |writer| writer.purge(floor)),
                Change::Vote(vote, done) => self.carry_out(done, |writer| writer.vote_file.save(&vote)),
                Change::Close => {
                    self.close();
                    return ControlFlow::Break(());
                }
                #[cfg(test)]
                Change::Crash => return ControlFlow::Break(()),
            }
        }
        self.write(group);
        ControlFlow::Continue(())
    }

    fn write(&mut self, group: Group) {
        if group.done.is_empty() {
            return;
        }
        let outcome = self.check().and_then(|()| self.write_group(&group.records));
        self.note_failure(&outcome);
        for done in group.done {
            done(copy_of(&outcome));
        }
    }

    fn carry_out(&mut self, done: Done, change: impl FnOnce(&mut Self) -> io::Result<()>) {
        let outcome = self.check().and_then(|()| change(self));
        self.note_failure(&outcome);
        done(outcome);
    }

    fn check(&self) -> io::Result<()> {
        self.shared.state.lock().check()
    }

    fn note_failure(&self, outcome: &io::Result<()>) {
        if let Err(error) = outcome {
            let mut state = self.shared.state.lock();
            if state.failed.is_none() {
                tracing::error!(%error, dir = %self.dir.display(), "the log cannot be written any more");
                state.failed = Some(format!("the log cannot be written any more: {error}"));
            }
        }
    }

    fn write_group(&mut self, records: &[Record]) -> io::Result<()> {
        let Some(last) = records.last() else { return Ok(()) };
        let bytes = GROUP_BYTES + records.iter().map(Record::encoded_len).sum::<usize>();
        let (file, start, mut chain, mut edge) = self.room_for(bytes as u64)?;
        self.buffer.clear();
        chain = put_group(&mut self.buffer, chain, edge, self.nonce);
        let mut noted = Vec::with_capacity(records.len());
        for record in records {
            noted.push((edge, start + self.buffer.len() as u64, chain));
            chain = put_entry(&mut self.buffer, chain, record);
            edge = Edge::after(record.position);
        }
        file.write_all_at(&self.buffer, start)?;
        file.sync_data()?;
        // The segment ends behind the group only now: nobody reads from the file what a power cut may still take.
        self.durable = Mark { edge: Edge::after(last.position), chain };
        let mut state = self.shared.state.lock();
        let segment = state.segments.last_mut().expect("room_for left a segment");
        for (before, offset, chain) in noted {
            segment.note(before, offset, chain);
        }
        segment.end = edge;
        segment.end_offset = start + self.buffer.len() as u64;
        segment.chain = chain;
        state.cache.evict(edge.next);
        // Do not keep the memory of one huge group.
        self.buffer.shrink_to(GROUP_BYTES_MAX);
        Ok(())
    }

    /// Room for the next group of this many bytes: (file, offset, chain that it continues, edge before it). Begins a
    /// new segment if the last one is full.
    fn room_for(&mut self, bytes: u64) -> io::Result<(Arc<dyn DiskFile>, u64, u32, Edge)> {
        let mut state = self.shared.state.lock();
        let (start, chain) = match state.segments.last() {
            Some(segment)
                if segment.end.next == segment.first() || segment.end_offset + bytes <= self.config.segment_bytes =>
            {
                return Ok((Arc::clone(&segment.file), segment.end_offset, segment.chain, segment.end));
            }
            Some(full) => {
                full.trim()?;
                (full.end, full.chain)
            }
            None => (self.durable.edge, 0),
        };
        // Readers go on while the file is made. Only this thread changes the list of segments.
        drop(state);
        let header = Header { nonce: self.nonce, start, chain, created_ms: self.disk.now_ms() };
        let segment = Segment::create(self.disk.as_ref(), &self.dir, header, self.config.segment_bytes)?;
        let room = (Arc::clone(&segment.file), segment.end_offset, segment.chain, segment.end);
        state = self.shared.state.lock();
        state.segments.push(segment);
        Ok(room)
    }

    fn truncate(&mut self, next: u64) -> io::Result<()> {
        if next >= self.durable.edge.next {
            return Ok(());
        }
        let mut segments = self.shared.state.lock().segments.clone();
        while segments.len() > 1 && segments.last().is_some_and(|segment| segment.first() >= next) {
            segments.pop();
        }
        let Some(mut kept) = segments.pop() else { return Ok(()) };
        // Lower the mark first: a crash before the cut must not look like lost entries.
        let (edge, chain) = kept.place_before(next)?;
        self.save_mark(Mark { edge, chain })?;
        self.remove(|segment| segment.first() > kept.first())?;
        kept.cut(next, self.config.segment_bytes)?;
        self.durable = self.marked;
        if let Some(newest) = self.shared.state.lock().segments.last_mut() {
            *newest = kept;
        }
        Ok(())
    }

    fn begin(&mut self, index: u64) -> io::Result<()> {
        self.remove(|_| true)?;
        let floor = self.shared.state.lock().floor;
        self.floor_file.save(&encode_floor(floor, index))?;
        self.durable = Mark { edge: Edge { term: floor.term, next: index }, chain: 0 };
        self.save_mark(self.durable)
    }

    fn purge(&mut self, floor: Edge) -> io::Result<()> {
        let begin = self.shared.state.lock().begin;
        // First the floor: after a crash files below it are leftovers, whereas missing files above it would be damage.
        self.floor_file.save(&encode_floor(floor, begin))?;
        if floor.next >= self.durable.edge.next {
            // The whole log goes. Later entries start a new chain in a new segment.
            self.remove(|_| true)?;
            self.durable = Mark { edge: floor, chain: 0 };
            return self.save_mark(self.durable);
        }
        let firsts: Vec<u64> = self.shared.state.lock().segments.iter().map(Segment::first).collect();
        let oldest = firsts.iter().rev().find(|first| **first <= floor.next).copied().unwrap_or(0);
        self.remove(|segment| segment.first() < oldest)
    }

    /// Removes the files of some segments, from one end inwards, so that a crash leaves no gap. From the newest end the
    /// directory is synced after each.
    fn remove(&mut self, which: impl Fn(&Segment) -> bool) -> io::Result<()> {
        let removed: Vec<Segment> = {
            let mut state = self.shared.state.lock();
            let (removed, kept) = state.segments.drain(..).partition(|segment| which(segment));
            state.segments = kept;
            removed
        };
        let kept_first = self.shared.state.lock().segments.first().map(Segment::first);
        let from_the_end = removed.first().zip(kept_first).is_some_and(|(gone, kept)| gone.first() > kept);
        let order: Vec<&Segment> = if from_the_end { removed.iter().rev().collect() } else { removed.iter().collect() };
        for segment in &order {
            self.disk.remove(&segment.path)?;
            if from_the_end {
                self.disk.sync_dir(&self.dir)?;
            }
        }
        if order.is_empty() { Ok(()) } else { self.disk.sync_dir(&self.dir) }
    }

    fn mark(&mut self) -> io::Result<()> {
        self.check()?;
        if self.marked == self.durable { Ok(()) } else { self.save_mark(self.durable) }
    }

    fn save_mark(&mut self, mark: Mark) -> io::Result<()> {
        self.mark_file.save(&mark.encode())?;
        self.marked = mark;
        Ok(())
    }

    fn close(&mut self) {
        let outcome = self.mark().and_then(|()| {
            let mut state = self.shared.state.lock();
            let committed = state.committed.encode();
            state.committed_file.save(&committed)
        });
        self.note_failure(&outcome);
        let mut state = self.shared.state.lock();
        state.failed.get_or_insert_with(|| "the log is closed".to_owned());
        drop(state);
        // Changes queued after the close get an error.
        for change in self.shared.queue.drain() {
            match change {
                Change::Append(_, done)
                | Change::Truncate(_, done)
                | Change::Purge(_, done)
                | Change::Vote(_, done) => {
                    done(self.check());
                }
                Change::Begin(_) | Change::Close => {}
                #[cfg(test)]
                Change::Crash => {}
            }
        }
    }
}

/// A writer that is a task, for a disk whose calls do not block.
#[derive(Clone)]
pub(super) struct TaskWriter {
    shared: Arc<Shared>,
    delay: Duration,
    writer: Arc<Mutex<Writer>>,
}

impl std::fmt::Debug for TaskWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskWriter").finish_non_exhaustive()
    }
}

impl TaskWriter {
    pub fn new(writer: Writer) -> Self {
        Self {
            shared: Arc::clone(&writer.shared),
            delay: writer.disk.group_delay(),
            writer: Arc::new(Mutex::new(writer)),
        }
    }

    /// Writes until the store is closed.
    pub async fn run(self) {
        loop {
            let timeout = self.writer.lock().timeout();
            let changes = self.shared.queue.come(timeout, self.delay).await;
            if self.writer.lock().carry_out_all(changes).is_break() {
                return;
            }
        }
    }

    /// Makes all queued changes now.
    pub fn settle(&self) {
        // Only a `Close` breaks, and that concerns the task's loop: no caller closes the store and then settles.
        let _ = self.writer.lock().carry_out_all(self.shared.queue.drain());
    }
}

fn copy_of(outcome: &io::Result<()>) -> io::Result<()> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}
