//! The event stream of a simulated cluster: the real hub, history and cursors on each server, the rebuilding of lost
//! histories, and subscribers that follow any running server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_commands::{Envelope, Kind};
use songline_events::entry::{AppliedEntry, Ending};
use songline_events::hub::{Dialect, EventHub, Format, HubConfig, Interest, Start, StoredHistory, full_frame};
use songline_events::refill::{Reached, Refill, Refilled, Refiller};
use songline_log::{Committed, Log, Payload};
use songline_projections::{Change, State};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::machine::SimMachine;
use super::plan::Sabotage;
use super::record::Record;
use super::server::{Host, Life};
use crate::check::Frame;

/// Number of entries in memory: few, so that subscribers read from the history.
const TAIL_BATCHES_MAX: usize = 20;
/// Delay before another attempt after a failed rebuild.
const RETRY_WAIT: Duration = Duration::from_secs(10);
/// Number of entries that are replayed between two pauses, in which the machine may die.
const ENTRIES_BETWEEN_PAUSES: usize = 30;
/// Number of servers without the next entry after which a subscriber accepts the gap.
const GAPS_MAX: u32 = 8;

/// Creates a hub over a server's history. `first` is the index of its first entry.
pub fn hub(history: &Arc<StoredHistory>, first: u64, record: &Record) -> Arc<EventHub> {
    let skips: Option<fn(u64) -> bool> = record.is_sabotaged(Sabotage::SkippedFrames).then_some(|index| index.is_multiple_of(100));
    let config = HubConfig { tail_batches_max: TAIL_BATCHES_MAX, skips, ..HubConfig::default() };
    EventHub::start(config, Some(Arc::clone(history) as _), first).expect("a history in memory does not fail")
}

/// An entry's events in an unfiltered stream; `None` without events.
pub fn frame_of(index: u64, kind: Kind, changes: &[Change]) -> Option<String> {
    full_frame(index, kind, changes).map(|frame| digest(&frame))
}

fn digest(frame: &[u8]) -> String {
    blake3::hash(frame.trim_ascii_end()).to_hex()[..16].to_owned()
}

/// Rebuilds a server's history whenever it was lost, as long as the server lives.
pub async fn keep_whole(host: Arc<Host>, life: Life) {
    let history = host.history();
    let mut losses = history.losses();
    while losses.wait_for(|lost| *lost).await.is_ok() {
        match refill(&host, &life, &history).await {
            Ok(Refilled::From(oldest)) => host.record().filled(life.log.id(), oldest),
            Ok(Refilled::NothingOlder) => {}
            Ok(Refilled::Abandoned) => tokio::time::sleep(RETRY_WAIT).await,
            Err(error) => {
                // The disk fails, or the log was cut during the replay.
                host.record().note(&format!("server {} could not fill its history: {error:#}", life.log.id()));
                tokio::time::sleep(RETRY_WAIT).await;
            }
        }
    }
}

async fn refill(host: &Host, life: &Life, history: &Arc<StoredHistory>) -> anyhow::Result<Refilled> {
    let Some(mut refiller) = Refiller::of([Arc::clone(history) as Arc<dyn Refill>])? else { return Ok(Refilled::NothingOlder) };
    let Some((mut state, entries)) = beginning(&life.log, refiller.resumes_after())? else {
        refiller.give_up()?;
        return Ok(Refilled::NothingOlder);
    };
    refiller.begin(Reached { index: state.applied_index(), raft_index: state.raft_index() })?;
    for (nth, entry) in entries.into_iter().enumerate() {
        if !refiller.wants_more() {
            break;
        }
        let raft_index = entry.position.index;
        match replay(&mut state, &entry) {
            Some(entry) => refiller.add(entry, raft_index)?,
            None => refiller.pass(Reached { index: state.applied_index(), raft_index }),
        }
        if nth % ENTRIES_BETWEEN_PAUSES == ENTRIES_BETWEEN_PAUSES - 1 {
            refiller.write_now();
            tokio::time::sleep(Duration::from_millis(host.random(1..200))).await;
            if !life.lives() {
                return Ok(Refilled::Abandoned);
            }
        }
    }
    let told = refiller.end()?;
    told.first().map(|(_, came_of_it)| *came_of_it).context("there is one store")
}

/// The state to replay a log from, and the entries after it, chosen as in the real server.
fn beginning(log: &Log<SimMachine>, resumes_after: u64) -> anyhow::Result<Option<(State, Vec<Committed>)>> {
    let oldest = log.oldest_index();
    let mut usable = log.checkpoint_indexes()?;
    usable.retain(|index| index + 1 >= oldest);
    usable.sort_unstable();
    let resumed = usable.iter().copied().rfind(|index| *index <= resumes_after);
    let chosen = resumed.or_else(|| usable.first().copied().filter(|_| oldest > 1));
    let state = match chosen {
        Some(index) => State::read_checkpoint(&mut log.read_checkpoint(index)?)?,
        None if oldest <= 1 => State::new(),
        None => return Ok(None),
    };
    let next = if chosen.is_some() { state.raft_index() + 1 } else { oldest };
    let last = log.applied().map_or(0, |position| position.index);
    let entries = log.read(next..last + 1)?.collect::<Result<Vec<_>, _>>()?;
    Ok(Some((state, entries)))
}

fn replay(state: &mut State, entry: &Committed) -> Option<AppliedEntry> {
    let Payload::Command(bytes) = &entry.payload else {
        songline_projections::pass(state, entry.position.index);
        return None;
    };
    let envelope = Envelope::decode(bytes).expect("entries are written by this program");
    let applied = songline_projections::apply(state, entry.position.index, &envelope);
    let (kind, changes) = (envelope.command.kind(), Arc::new(applied.changes));
    // The entry's result is not part of the stream.
    Some(AppliedEntry { index: state.applied_index(), at: state.applied_at(), kind, ending: Ending::Done, changes })
}

/// A line of a stream.
enum Line {
    Frame(Frame),
    /// Events below this index are not available here.
    Gap(u64),
    Closed,
}

fn read(line: &[u8]) -> Option<Line> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    if value.get("Events").is_some() {
        return Some(Line::Frame(Frame { index: value["Index"].as_u64()?, content: digest(line) }));
    }
    if let Some(oldest) = value["Gap"]["Oldest"].as_u64() {
        return Some(Line::Gap(oldest));
    }
    value.get("Closed").map(|_| Line::Closed)
}

/// Follows the stream of any running server from its cursor, and skips entries only when they are gone on all
/// servers.
pub async fn follow(number: u64, seed: u64, hosts: Vec<Arc<Host>>, record: Arc<Record>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut cursor, mut gaps) = (0, 0);
    record.streamed(number, cursor, None);
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(50..800))).await;
        let host = &hosts[rng.random_range(0..hosts.len())];
        let Some((life, hub)) = host.life().and_then(|life| life.seen.hub().map(|hub| (life, hub))) else { continue };
        let until = Instant::now() + Duration::from_millis(rng.random_range(100..20_000));
        let everything = Interest::parse("*", std::iter::empty()).expect("is valid");
        let subscription = hub.subscribe(everything, Format::Json, Dialect::Full, Start::After(cursor));
        let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
        let mut gap = None;
        'reading: while let Ok(Some(Ok(piece))) = tokio::time::timeout_at(until, stream.next()).await {
            for line in piece.split(|byte| *byte == b'\n').filter_map(read) {
                match line {
                    // Output of a machine that has died does not arrive.
                    _ if !life.lives() => break 'reading,
                    Line::Frame(frame) => {
                        (cursor, gaps) = (frame.index, 0);
                        record.streamed(number, cursor, Some(frame));
                    }
                    Line::Gap(oldest) => {
                        gap = Some(oldest);
                        break 'reading;
                    }
                    Line::Closed => break 'reading,
                }
            }
        }
        if let Some(oldest) = gap {
            gaps += 1;
            // Another server may have the entries, or this one once its history is rebuilt.
            if gaps > GAPS_MAX {
                (cursor, gaps) = (oldest - 1, 0);
                record.streamed(number, cursor, None);
            }
        }
    }
}
