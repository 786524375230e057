//! A subscriber that resumes after the last index it saw, and the events of the writers' node pools. Not here:
//! comparing the events with the writes.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::http::{Connection, Request};

/// One write of a node pool, as an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolEvent {
    pub index: u64,
    pub name: String,
    pub description: String,
}

/// A subscription that reads in the background until the connection breaks.
pub struct Follower {
    events: Receiver<PoolEvent>,
    thread: JoinHandle<Result<()>>,
}

impl Follower {
    /// Subscribes to the events after `after`.
    pub fn start(http: SocketAddr, after: u64) -> Result<Follower> {
        // Longer than any round: the kill ends the stream.
        let deadline = Instant::now() + Duration::from_secs(600);
        let mut connection = Connection::open(http, deadline)?;
        let target = format!("/v1/event/stream?topic=NodePool&after_index={after}");
        let head = connection.send(&Request::new("GET", &target), deadline)?;
        ensure!(head.status == 200, "GET {target}: {}", head.status);
        let (tell, events) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut last = after;
            let mut rest = Vec::new();
            // A broken connection ends the stream; a line that it cuts short is dropped.
            while let Ok(Some(part)) = connection.read_some(deadline) {
                rest.extend_from_slice(&part);
                while let Some(end) = rest.iter().position(|b| *b == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    let Some(event) = pool_event(&line, &mut last)? else {
                        continue;
                    };
                    if tell.send(event).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        Ok(Follower { events, thread })
    }

    /// All events up to the end of the stream.
    pub fn finish(self) -> Result<Vec<PoolEvent>> {
        let events = self.events.iter().collect();
        self.thread.join().map_err(|_| anyhow!("the follower panicked"))??;
        Ok(events)
    }

    /// All events up to that of `index`.
    pub fn until(self, index: u64, within: Duration) -> Result<Vec<PoolEvent>> {
        let deadline = Instant::now() + within;
        let mut events: Vec<PoolEvent> = Vec::new();
        while events.last().map_or(0, |event| event.index) < index {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => events.push(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bail!("the stream did not reach {index}: {:?}", events.last())
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    self.thread.join().map_err(|_| anyhow!("the follower panicked"))??;
                    bail!("the stream ended before {index}");
                }
            }
        }
        Ok(events)
    }
}

/// The event of a frame, if it is about one of the writers' node pools. Fails unless indexes increase from frame to
/// frame, and on a gap.
fn pool_event(line: &[u8], last: &mut u64) -> Result<Option<PoolEvent>> {
    let frame: Value = serde_json::from_slice(line)
        .with_context(|| format!("a frame of the stream: {}", String::from_utf8_lossy(line).trim()))?;
    ensure!(frame.get("Gap").is_none(), "a gap behind {last}: {frame}");
    let Some(events) = frame.get("Events").and_then(Value::as_array) else {
        return Ok(None);
    };
    let index = frame["Index"].as_u64().context("a frame has an index")?;
    ensure!(index > *last, "frame {index} came behind frame {last}");
    *last = index;
    let ours: Vec<&Value> = events.iter().filter(|event| event["Type"] == "NodePoolUpserted").collect();
    let [event] = ours.as_slice() else {
        ensure!(ours.is_empty(), "several pools in one entry: {frame}");
        return Ok(None);
    };
    ensure!(event["Index"] == index, "an event of another entry: {frame}");
    let pool = &event["Payload"]["NodePool"];
    let text = |key: &str| pool[key].as_str().unwrap_or_default().to_string();
    Ok(Some(PoolEvent { index, name: text("Name"), description: text("Description") }))
}
