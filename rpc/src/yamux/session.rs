//! A session over a connection: tasks that read, write and send keepalives, and the calls that wait for them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::frame::Decoder;
use super::state::State;
use super::{Ended, SessionLimits, Stream};

/// Bytes read or written at a time.
const BATCH_BYTES: usize = 32 * 1024;

/// Longest interval between checks of timeouts.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A session. Clones share it. It ends when the last clone and the last stream are dropped, or when the connection
/// ends.
#[derive(Clone)]
pub struct Session {
    held: Arc<Held>,
}

/// Handle shared by clones and streams, but not by the session's tasks: dropping the last one ends the session.
pub(super) struct Held(Arc<Shared>);

/// State shared by the tasks and the holders of the session.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Signals that there is something to write.
    unsent: Notify,
    /// Signals that there is room for more control frames, so that reading may go on.
    room: Notify,
    /// Signals that there is a stream to accept.
    opened: Notify,
    /// Signals that a stream was acknowledged or is gone, so that another may be opened.
    place: Notify,
    over: CancellationToken,
}

impl Session {
    /// A session over a connection that this side dialled.
    pub fn dialled<C: AsyncRead + AsyncWrite + Send + 'static>(conn: C, limits: SessionLimits) -> Self {
        Self::start(conn, true, limits)
    }

    /// A session over a connection that the other side dialled.
    pub fn accepted<C: AsyncRead + AsyncWrite + Send + 'static>(conn: C, limits: SessionLimits) -> Self {
        Self::start(conn, false, limits)
    }

    fn start<C: AsyncRead + AsyncWrite + Send + 'static>(conn: C, dialled: bool, limits: SessionLimits) -> Self {
        let write_within = limits.answer_within;
        let look_every = LOOK_EVERY.min(limits.keepalive_every).min(limits.answer_within);
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(dialled, limits, Instant::now())),
            unsent: Notify::new(),
            room: Notify::new(),
            opened: Notify::new(),
            place: Notify::new(),
            over: CancellationToken::new(),
        });
        let (reader, writer) = tokio::io::split(conn);
        tokio::spawn(read(Arc::clone(&shared), reader));
        tokio::spawn(write(Arc::clone(&shared), writer, write_within));
        tokio::spawn(keep(Arc::clone(&shared), look_every));
        Self { held: Arc::new(Held(shared)) }
    }

    /// Opens a stream. Waits while `backlog_max` streams are not acknowledged.
    pub async fn open(&self) -> io::Result<Stream> {
        let shared = self.held.shared();
        loop {
            let place = shared.place.notified();
            if let Some(id) = shared.state.lock().open(Instant::now()).map_err(|ended| ended.io())? {
                shared.unsent.notify_one();
                return Ok(Stream::new(id, Arc::clone(&self.held)));
            }
            tokio::select! {
                biased;
                () = shared.over.cancelled() => {}
                () = place => {}
            }
        }
    }

    /// Waits for the next stream that the other side opens.
    pub async fn accept(&self) -> io::Result<Stream> {
        let shared = self.held.shared();
        loop {
            if let Some(id) = shared.state.lock().accept().map_err(|ended| ended.io())? {
                shared.unsent.notify_one();
                return Ok(Stream::new(id, Arc::clone(&self.held)));
            }
            tokio::select! {
                biased;
                () = shared.over.cancelled() => {}
                () = shared.opened.notified() => {}
            }
        }
    }

    /// Waits for the end of the session and returns the reason.
    pub async fn closed(&self) -> Ended {
        self.held.shared().over.cancelled().await;
        self.ended().unwrap_or(Ended::Here)
    }

    /// Reason why the session has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.held.shared().state.lock().ended().cloned()
    }

    /// Ends the session: queued bytes are still sent, all waiting calls fail.
    pub fn close(&self) {
        self.held.shared().end(Ended::Here);
    }

    /// Counts bytes that a reader has taken from a stream and still holds, `now` instead of `before`. Ends the session
    /// when unread and held bytes are more than `unread_bytes_max`.
    pub(crate) fn hold(&self, before: usize, now: usize) -> io::Result<()> {
        let counted = self.held.shared().state.lock().hold(before, now);
        counted.map_err(|ended| {
            let error = ended.io();
            self.held.shared().end(ended);
            error
        })
    }

    /// Gives back bytes that were counted by `hold`.
    pub(crate) fn release(&self, bytes: usize) {
        // Fewer held bytes cannot exceed the budget, unless the session has ended already.
        let _ = self.held.shared().state.lock().hold(bytes, 0);
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.held.shared().state.lock().streams()
    }

    pub(super) fn of(held: &Arc<Held>) -> Self {
        Self { held: Arc::clone(held) }
    }

    /// Whether both are clones of one session.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.held.shared().state.lock();
        f.debug_struct("Session").field("streams", &state.streams()).field("ended", &state.ended()).finish()
    }
}

impl Held {
    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.end(Ended::Here);
    }
}

impl Shared {
    pub(super) fn tell_writer(&self) {
        self.unsent.notify_one();
    }

    pub(super) fn tell_openers(&self) {
        self.place.notify_waiters();
    }

    fn end(&self, why: Ended) {
        self.state.lock().end(why);
        self.over.cancel();
        self.unsent.notify_one();
    }
}

/// Reads until the session or the connection ends.
async fn read<C: AsyncRead>(shared: Arc<Shared>, mut conn: ReadHalf<C>) {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; BATCH_BYTES];
    loop {
        let room = shared.room.notified();
        if !shared.state.lock().has_room() {
            tokio::select! {
                biased;
                () = shared.over.cancelled() => return,
                () = room => continue,
            }
        }
        let read = tokio::select! {
            biased;
            () = shared.over.cancelled() => return,
            read = conn.read(&mut buffer) => read,
        };
        let why = match read {
            Ok(0) => Some(Ended::Eof),
            Ok(count) => receive(&shared, &mut decoder, &buffer[..count]).err(),
            Err(error) => Some(Ended::Connection(error.to_string())),
        };
        if let Some(why) = why {
            shared.end(why);
            return;
        }
    }
}

/// Handles all pieces of one read under one lock, before any waiter acts on the first.
fn receive(shared: &Shared, decoder: &mut Decoder, mut bytes: &[u8]) -> Result<(), Ended> {
    let now = Instant::now();
    let mut state = shared.state.lock();
    while let Some(piece) = decoder.next(&mut bytes)? {
        state.receive(piece, now)?;
    }
    drop(state);
    shared.unsent.notify_one();
    shared.opened.notify_one();
    shared.place.notify_waiters();
    Ok(())
}

/// Writes until the session ends; bytes queued before the end are still written.
async fn write<C: AsyncWrite>(shared: Arc<Shared>, mut conn: WriteHalf<C>, within: Duration) {
    let mut batch = Vec::with_capacity(BATCH_BYTES);
    loop {
        batch.clear();
        let over = {
            let mut state = shared.state.lock();
            state.take_unsent(&mut batch, BATCH_BYTES);
            state.ended().is_some()
        };
        shared.room.notify_one();
        if batch.is_empty() {
            if over {
                break;
            }
            shared.unsent.notified().await;
            continue;
        }
        let mut rest = batch.as_slice();
        while !rest.is_empty() {
            let why = match tokio::time::timeout(within, conn.write(rest)).await {
                Ok(Ok(0)) => Ended::Eof,
                Ok(Ok(count)) => {
                    rest = &rest[count..];
                    continue;
                }
                Ok(Err(error)) => Ended::Connection(error.to_string()),
                Err(_) => Ended::Silent,
            };
            shared.end(why);
            return;
        }
        if let Err(error) = conn.flush().await {
            shared.end(Ended::Connection(error.to_string()));
            return;
        }
    }
    // An error does not matter: dropping this half closes the connection as well.
    let _ = tokio::time::timeout(within, conn.shutdown()).await;
}

/// Sends pings, and ends streams or the session after their timeouts.
async fn keep(shared: Arc<Shared>, every: Duration) {
    loop {
        tokio::select! {
            biased;
            () = shared.over.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let looked = shared.state.lock().on_time(Instant::now());
        match looked {
            Ok(()) => shared.unsent.notify_one(),
            Err(why) => {
                shared.end(why);
                return;
            }
        }
    }
}
