//! Effects of frames on a session and its streams. `session` moves the bytes; nothing here blocks.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::frame::{Flags, Header, Kind, Piece};
use super::{DATA_FRAME_BYTES_MAX, Ended, SessionLimits, WINDOW_BYTES};

/// Most queued control frames (frames without data) while input is still read. It bounds answers to a flood of
/// requests.
const CONTROL_FRAMES_MAX: usize = 1024;

/// Most queued data bytes of all streams; then writers have to wait.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// State of a session.
pub(super) struct State {
    limits: SessionLimits,
    streams: BTreeMap<u32, Row>,
    next_id: u32,
    backlog: VecDeque<u32>,
    control: VecDeque<Header>,
    data: VecDeque<(Header, Bytes)>,
    unsent: usize,
    unread: usize,
    /// Bytes that readers have taken from streams and still hold, in unfinished requests.
    held: usize,
    /// Streams whose writers wait for `unsent` to shrink.
    crowded: Vec<u32>,
    /// The data frame being received: its stream, the bytes left, whether the stream ends with it.
    coming: (u32, u32, bool),
    ping: u32,
    asked: Option<Instant>,
    ping_at: Instant,
    told_to_go: bool,
    ended: Option<Ended>,
}

/// State of a stream.
struct Row {
    since: Instant,
    /// Whether this side opened the stream.
    ours: bool,
    /// Whether the accepting side has acknowledged the stream.
    acknowledged: bool,
    incoming: BytesMut,
    may_receive: u32,
    may_send: u32,
    fin_sent: bool,
    fin_received: bool,
    reset: bool,
    /// Time at which the stream was dropped on this side.
    let_go: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Row {
    fn new(ours: bool, now: Instant) -> Self {
        Self {
            since: now,
            ours,
            acknowledged: false,
            incoming: BytesMut::new(),
            may_receive: WINDOW_BYTES,
            may_send: WINDOW_BYTES,
            fin_sent: false,
            fin_received: false,
            reset: false,
            let_go: None,
            reader: None,
            writer: None,
        }
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

impl State {
    pub(super) fn new(dialled: bool, limits: SessionLimits, now: Instant) -> Self {
        let ping_at = now + limits.keepalive_every;
        Self {
            limits,
            streams: BTreeMap::new(),
            next_id: if dialled { 1 } else { 2 },
            backlog: VecDeque::new(),
            control: VecDeque::new(),
            data: VecDeque::new(),
            unsent: 0,
            unread: 0,
            held: 0,
            crowded: Vec::new(),
            coming: (0, 0, false),
            ping: 0,
            asked: None,
            ping_at,
            told_to_go: false,
            ended: None,
        }
    }

    pub(super) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Ends the session; only the first reason counts. Wakes all waiters of its streams.
    pub(super) fn end(&mut self, why: Ended) {
        if self.ended.is_none() {
            self.ended = Some(why);
            self.streams.values_mut().for_each(Row::wake);
        }
    }

    /// Whether more input may be read: not too many control frames are queued.
    pub(super) fn has_room(&self) -> bool {
        self.control.len() < CONTROL_FRAMES_MAX
    }

    /// Number of streams.
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream; `None`: `backlog_max` streams are not acknowledged.
    pub(super) fn open(&mut self, now: Instant) -> Result<Option<u32>, Ended> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        if self.told_to_go {
            return Err(Ended::GoneAway(0));
        }
        if self.streams.values().filter(|row| row.ours && !row.acknowledged).count() >= self.limits.backlog_max {
            return Ok(None);
        }
        // The other side may choose any ids, so an id of ours may be taken.
        while self.streams.contains_key(&self.next_id) {
            self.next_id = self.next_id.checked_add(2).ok_or(Ended::GoneAway(0))?;
        }
        let id = self.next_id;
        self.next_id = id.checked_add(2).ok_or(Ended::GoneAway(0))?;
        self.streams.insert(id, Row::new(true, now));
        self.control.push_back(Header { kind: Kind::Window, flags: Flags::SYN, stream: id, length: 0 });
        Ok(Some(id))
    }

    /// Accepts the stream that has waited longest; `None` if there is none.
    pub(super) fn accept(&mut self) -> Result<Option<u32>, Ended> {
        while let Some(id) = self.backlog.pop_front() {
            let Some(row) = self.streams.get_mut(&id) else { continue };
            row.acknowledged = true;
            // An opener that has already ended the stream does not wait for an acknowledgement.
            if !row.fin_received && !row.reset {
                self.control.push_back(Header { kind: Kind::Window, flags: Flags::ACK, stream: id, length: 0 });
            }
            return Ok(Some(id));
        }
        self.ended.as_ref().map_or(Ok(None), |ended| Err(ended.clone()))
    }

    /// Handles the next piece of input.
    pub(super) fn receive(&mut self, piece: Piece<'_>, now: Instant) -> Result<(), Ended> {
        match piece {
            Piece::Header(header) => match header.kind {
                Kind::Data | Kind::Window => self.on_stream(header, now),
                Kind::Ping => {
                    self.on_ping(header, now);
                    Ok(())
                }
                Kind::GoAway if header.length == 0 => {
                    self.told_to_go = true;
                    Ok(())
                }
                Kind::GoAway => Err(Ended::GoneAway(header.length)),
            },
            Piece::Data(bytes) => self.on_data(bytes),
        }
    }

    fn on_stream(&mut self, header: Header, now: Instant) -> Result<(), Ended> {
        if header.flags.has(Flags::SYN) {
            self.on_syn(header.stream, now)?;
        }
        if header.kind == Kind::Data {
            self.coming = (header.stream, header.length, header.flags.has(Flags::FIN));
        }
        // An unknown stream was reset or dropped here: frames still under way to it are ignored.
        let Some(row) = self.streams.get_mut(&header.stream) else { return Ok(()) };
        if header.flags.has(Flags::ACK) && row.ours {
            row.acknowledged = true;
        }
        if header.flags.has(Flags::RST) {
            row.reset = true;
            row.wake();
        }
        match header.kind {
            Kind::Data => {
                row.may_receive = row.may_receive.checked_sub(header.length).ok_or(Ended::WindowExceeded)?;
                if header.length == 0 && header.flags.has(Flags::FIN) {
                    self.on_fin(header.stream);
                }
            }
            Kind::Window => {
                row.may_send = row.may_send.saturating_add(header.length);
                if header.length > 0
                    && let Some(writer) = row.writer.take()
                {
                    writer.wake();
                }
                if header.flags.has(Flags::FIN) {
                    self.on_fin(header.stream);
                }
            }
            Kind::Ping | Kind::GoAway => unreachable!("those are not of a stream"),
        }
        self.forget_if_over(header.stream);
        Ok(())
    }

    fn on_syn(&mut self, id: u32, now: Instant) -> Result<(), Ended> {
        if self.streams.contains_key(&id) {
            return Err(Ended::Duplicate);
        }
        let theirs = self.streams.values().filter(|row| !row.ours).count();
        if self.backlog.len() >= self.limits.backlog_max || theirs >= self.limits.streams_max {
            self.control.push_back(Header { kind: Kind::Window, flags: Flags::RST, stream: id, length: 0 });
            return Ok(());
        }
        self.streams.insert(id, Row::new(false, now));
        self.backlog.push_back(id);
        Ok(())
    }

    fn on_data(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let (id, left, fin) = self.coming;
        let left = left.saturating_sub(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.coming.1 = left;
        if let Some(row) = self.streams.get_mut(&id)
            && row.let_go.is_none()
            && !row.reset
        {
            row.incoming.extend_from_slice(bytes);
            self.unread += bytes.len();
            if let Some(reader) = row.reader.take() {
                reader.wake();
            }
            self.check_budget()?;
        }
        if left == 0 && fin {
            self.on_fin(id);
            self.forget_if_over(id);
        }
        Ok(())
    }

    fn on_fin(&mut self, id: u32) {
        if let Some(row) = self.streams.get_mut(&id) {
            row.fin_received = true;
            if let Some(reader) = row.reader.take() {
                reader.wake();
            }
        }
    }

    fn on_ping(&mut self, header: Header, now: Instant) {
        if header.flags.has(Flags::SYN) {
            self.control.push_back(Header { kind: Kind::Ping, flags: Flags::ACK, stream: 0, length: header.length });
        } else if header.flags.has(Flags::ACK) && self.asked.is_some() && header.length.wrapping_add(1) == self.ping {
            self.asked = None;
            self.ping_at = now + self.limits.keepalive_every;
        }
    }

    /// Handles timeouts: sends pings, resets streams, and returns the reason if the session has to end.
    pub(super) fn on_time(&mut self, now: Instant) -> Result<(), Ended> {
        if self.asked.is_some_and(|asked| now >= asked + self.limits.answer_within) {
            return Err(Ended::Silent);
        }
        if self.asked.is_none() && now >= self.ping_at {
            self.control.push_back(Header { kind: Kind::Ping, flags: Flags::SYN, stream: 0, length: self.ping });
            self.ping = self.ping.wrapping_add(1);
            self.asked = Some(now);
        }
        if self.streams.values().any(|row| row.ours && !row.acknowledged && now >= row.since + self.limits.open_within)
        {
            return Err(Ended::NeverAcknowledged);
        }
        let close_within = self.limits.close_within;
        let over: Vec<u32> = self
            .streams
            .iter()
            .filter(|(_, row)| row.let_go.is_some_and(|since| now >= since + close_within))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            self.streams.remove(&id);
            self.control.push_back(Header { kind: Kind::Window, flags: Flags::RST, stream: id, length: 0 });
        }
        Ok(())
    }

    /// Appends about `bytes_max` bytes of queued frames to `into`. Control frames go first, because the other side
    /// waits for them.
    pub(super) fn take_unsent(&mut self, into: &mut Vec<u8>, bytes_max: usize) {
        while into.len() < bytes_max {
            if let Some(header) = self.control.pop_front() {
                into.extend_from_slice(&header.encode());
            } else if let Some((header, data)) = self.data.pop_front() {
                into.extend_from_slice(&header.encode());
                into.extend_from_slice(&data);
                self.unsent -= data.len();
            } else {
                break;
            }
        }
        if self.unsent < UNSENT_BYTES_MAX {
            for id in std::mem::take(&mut self.crowded) {
                if let Some(writer) = self.streams.get_mut(&id).and_then(|row| row.writer.take()) {
                    writer.wake();
                }
            }
        }
    }

    /// Reads from a stream. The flag says whether a window update was queued, which has to be written.
    pub(super) fn read(&mut self, id: u32, cx: &Context<'_>, into: &mut ReadBuf<'_>) -> (Poll<io::Result<()>>, bool) {
        let Some(row) = self.streams.get_mut(&id) else { return (Poll::Ready(Ok(())), false) };
        if row.reset {
            self.unread -= row.incoming.len();
            row.incoming.clear();
            return (Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())), false);
        }
        if row.incoming.is_empty() {
            return match &self.ended {
                _ if row.fin_received || into.remaining() == 0 => (Poll::Ready(Ok(())), false),
                Some(ended) => (Poll::Ready(Err(ended.io())), false),
                None => {
                    row.reader = Some(cx.waker().clone());
                    (Poll::Pending, false)
                }
            };
        }
        let take = row.incoming.len().min(into.remaining());
        into.put_slice(&row.incoming[..take]);
        row.incoming.advance(take);
        if row.incoming.is_empty() {
            // Free the memory of a burst.
            row.incoming = BytesMut::new();
        }
        self.unread -= take;
        let unread = u32::try_from(row.incoming.len()).unwrap_or(WINDOW_BYTES);
        let credit = WINDOW_BYTES.saturating_sub(unread).saturating_sub(row.may_receive);
        let due = credit >= WINDOW_BYTES / 2 && !row.fin_received;
        if due {
            row.may_receive += credit;
            self.control.push_back(Header { kind: Kind::Window, flags: Flags::NONE, stream: id, length: credit });
        }
        (Poll::Ready(Ok(())), due)
    }

    /// Counts the bytes that a reader holds: `now` instead of `before`.
    pub(super) fn hold(&mut self, before: usize, now: usize) -> Result<(), Ended> {
        self.held = self.held.saturating_sub(before) + now;
        self.check_budget()
    }

    fn check_budget(&self) -> Result<(), Ended> {
        if self.unread + self.held > self.limits.unread_bytes_max { Err(Ended::Unread) } else { Ok(()) }
    }

    /// Queues bytes of a stream, as many as its window and the queue have room for.
    pub(super) fn write(&mut self, id: u32, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(ended) = &self.ended {
            return Poll::Ready(Err(ended.io()));
        }
        let Some(row) = self.streams.get_mut(&id) else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        if row.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if row.fin_sent {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = UNSENT_BYTES_MAX.saturating_sub(self.unsent);
        let take = bytes.len().min(usize::try_from(row.may_send).unwrap_or(usize::MAX)).min(room);
        if take == 0 && !bytes.is_empty() {
            row.writer = Some(cx.waker().clone());
            if room == 0 {
                self.crowded.push(id);
            }
            return Poll::Pending;
        }
        for chunk in bytes[..take].chunks(DATA_FRAME_BYTES_MAX) {
            let length = u32::try_from(chunk.len()).expect("a chunk has at most 4096 bytes");
            row.may_send -= length;
            self.unsent += chunk.len();
            let header = Header { kind: Kind::Data, flags: Flags::NONE, stream: id, length };
            self.data.push_back((header, Bytes::copy_from_slice(chunk)));
        }
        Poll::Ready(Ok(take))
    }

    /// Ends the sending direction. The end is queued after the stream's data, which it must not overtake.
    pub(super) fn finish(&mut self, id: u32) {
        if let Some(row) = self.streams.get_mut(&id)
            && !row.fin_sent
        {
            row.fin_sent = true;
            if !row.reset && self.ended.is_none() {
                self.data
                    .push_back((Header { kind: Kind::Window, flags: Flags::FIN, stream: id, length: 0 }, Bytes::new()));
            }
        }
    }

    /// Called when the stream was dropped on this side.
    pub(super) fn let_go(&mut self, id: u32, now: Instant) {
        self.finish(id);
        if let Some(row) = self.streams.get_mut(&id) {
            self.unread -= row.incoming.len();
            row.incoming = BytesMut::new();
            row.let_go = Some(now);
            (row.reader, row.writer) = (None, None);
        }
        self.forget_if_over(id);
    }

    fn forget_if_over(&mut self, id: u32) {
        let over = |row: &Row| row.let_go.is_some() && (row.fin_received || row.reset || self.ended.is_some());
        if self.streams.get(&id).is_some_and(over) {
            self.streams.remove(&id);
        }
    }
}
