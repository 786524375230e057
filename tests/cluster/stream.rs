//! Subscribers of the event stream: one that fails over to another server, and one that reads a whole stream of one
//! server. Both check that indexes increase and that there is no gap. Not here: comparing the events with the writes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use parking_lot::Mutex;
use serde_json::Value;

use crate::http::{Connection, Request};
use crate::wait::until;

/// Time without data after which another server is used. Writers never pause for so long while they can write.
const SILENCE: Duration = Duration::from_secs(2);

/// One write of a writer, as an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolEvent {
    pub index: u64,
    pub writer: usize,
    pub number: u64,
}

/// A subscriber that fails over between servers.
pub struct Roamer {
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

#[derive(Default)]
struct Seen {
    events: Mutex<Vec<PoolEvent>>,
    last: AtomicU64,
    moves: AtomicU64,
}

impl Roamer {
    /// Follows the node pools of `run` from the beginning, first at server `first`.
    pub fn start(servers: &[SocketAddr], first: usize, run: &str) -> Result<Roamer> {
        let seen: Arc<Seen> = Arc::default();
        let stop: Arc<AtomicBool> = Arc::default();
        let (servers, run) = (servers.to_vec(), run.to_owned());
        let (shared, told) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = thread::Builder::new().name("roamer".into());
        let thread =
            thread.spawn(move || roam(&servers, first, &run, &shared, &told)).context("starting a subscriber")?;
        Ok(Roamer { seen, stop, thread })
    }

    /// Waits until all events up to `index` were received, and returns these and the number of failovers. Later
    /// events are dropped.
    pub fn finish(self, index: u64, within: Duration) -> Result<(Vec<PoolEvent>, u64)> {
        let reached = until(Instant::now() + within, || {
            self.seen.last.load(Ordering::SeqCst) >= index || self.thread.is_finished()
        });
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| anyhow!("the subscriber panicked"))??;
        let last = self.seen.last.load(Ordering::SeqCst);
        ensure!(reached && last >= index, "the stream came to {last} and not to {index}");
        let mut events = std::mem::take(&mut *self.seen.events.lock());
        // A write of unknown outcome may still take effect after everything that is checked.
        events.truncate(events.partition_point(|event| event.index <= index));
        Ok((events, self.seen.moves.load(Ordering::SeqCst)))
    }
}

fn roam(servers: &[SocketAddr], first: usize, run: &str, seen: &Seen, stop: &AtomicBool) -> Result<()> {
    let mut at = first;
    while !stop.load(Ordering::SeqCst) {
        let mut last = seen.last.load(Ordering::SeqCst);
        let silence = |_: &Seen| Instant::now() + SILENCE;
        if let Ok(mut subscription) = Subscription::start(servers[at % servers.len()], last, silence(seen)) {
            // However the connection ends, the next server continues after the last received frame.
            while let Some(line) = subscription.line(silence(seen)) {
                let event = pool_event(&line, &mut last, run)?;
                if let Some(event) = event {
                    seen.events.lock().push(event);
                }
                seen.last.store(last, Ordering::SeqCst);
                if stop.load(Ordering::SeqCst) {
                    return Ok(());
                }
            }
        } else {
            thread::park_timeout(Duration::from_millis(20));
        }
        at += 1;
        seen.moves.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// All events of one server about the node pools of `run`, after `after` and up to `index`.
pub fn read_whole(server: SocketAddr, after: u64, index: u64, run: &str, within: Duration) -> Result<Vec<PoolEvent>> {
    let deadline = Instant::now() + within;
    let mut events = Vec::new();
    let mut last = after;
    // A subscriber that reads too slowly is disconnected, and continues from its cursor.
    while last < index {
        ensure!(Instant::now() < deadline, "the stream of {server} came to {last} and not to {index}");
        let mut subscription = Subscription::start(server, last, deadline)?;
        while last < index {
            let Some(line) = subscription.line(deadline) else { break };
            events.extend(pool_event(&line, &mut last, run)?);
        }
    }
    Ok(events)
}

/// One connection with a stream.
struct Subscription {
    connection: Connection,
    unread: Vec<u8>,
    /// Length of the prefix of `unread` that has no newline.
    looked_at: usize,
}

impl Subscription {
    fn start(server: SocketAddr, after: u64, deadline: Instant) -> Result<Subscription> {
        let mut connection = Connection::open(server, deadline)?;
        let target = format!("/v1/event/stream?topic=NodePool&after_index={after}");
        let head = connection.send(&Request::new("GET", &target), deadline)?;
        if head.status != 200 {
            bail!("GET {target}: {}", head.status);
        }
        Ok(Subscription { connection, unread: Vec::new(), looked_at: 0 })
    }

    /// The next complete line; `None` when no more comes. A line that the end of the connection cuts short is
    /// dropped.
    fn line(&mut self, deadline: Instant) -> Option<Vec<u8>> {
        loop {
            let end = self.unread[self.looked_at..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line = self.unread.drain(..=self.looked_at + end).collect();
                self.looked_at = 0;
                return Some(line);
            }
            self.looked_at = self.unread.len();
            let part = self.connection.read_some(deadline).ok()??;
            self.unread.extend_from_slice(&part);
        }
    }
}

/// The event of a frame, if it is about a node pool of `run`.
fn pool_event(line: &[u8], last: &mut u64, run: &str) -> Result<Option<PoolEvent>> {
    let frame: Value = serde_json::from_slice(line)
        .with_context(|| format!("a frame of the stream: {}", String::from_utf8_lossy(line).trim()))?;
    ensure!(frame.get("Gap").is_none(), "a gap behind {last}: {frame}");
    let Some(events) = frame.get("Events").and_then(Value::as_array) else {
        return Ok(None);
    };
    let index = frame["Index"].as_u64().context("a frame has an index")?;
    ensure!(index > *last, "frame {index} came behind frame {last}");
    *last = index;
    let mut found = None;
    for event in events.iter().filter(|event| event["Type"] == "NodePoolUpserted") {
        ensure!(event["Index"] == index, "an event of another entry: {frame}");
        let pool = &event["Payload"]["NodePool"];
        let name = pool["Name"].as_str().unwrap_or_default();
        let Some(writer) =
            name.rsplit_once('-').filter(|(of, _)| *of == run).and_then(|(_, writer)| writer.parse().ok())
        else {
            continue;
        };
        let number = pool["Description"]
            .as_str()
            .and_then(|number| number.parse().ok())
            .with_context(|| format!("a number: {frame}"))?;
        ensure!(found.is_none(), "several pools in one entry: {frame}");
        found = Some(PoolEvent { index, writer, number });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
