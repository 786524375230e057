//! What happened in a simulation: a digest of all of it, the last lines of it for people, what the checkers need, and what they found.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::plan::Sabotage;
use crate::check::linear::{Call, NotLinearizable};
use crate::check::{
    Digests, Frame, Leaders, PlacementError, StreamError, Write, WriteError, linearizable, stream_equals_log, writes_are_in_the_log,
};

/// How many of the last lines are kept for the story.
const LINES_KEPT: usize = 60;
/// How many of the last operations of clients are.
const CALLS_KEPT: usize = 20;

/// What a checker found.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Violation {
    /// Servers differ in what they must agree on.
    #[error("{0}")]
    Disagreement(String),
    /// A write is lost, doubled or invented.
    #[error(transparent)]
    Writes(#[from] WriteError),
    /// Answers that no order explains.
    #[error(transparent)]
    Answers(#[from] NotLinearizable),
    /// A stream that is not the log.
    #[error("reader {reader}: {error}")]
    Stream {
        /// Whose stream.
        reader: u64,
        /// What is wrong with it.
        error: StreamError,
    },
    /// A server failed though nothing was wrong with its machine.
    #[error("server {server} failed: {why}")]
    Failed {
        /// Which.
        server: u64,
        /// What it said.
        why: String,
    },
    /// Jobs do not run as they should.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Nothing is wrong any more and still nothing goes on.
    #[error("{0}")]
    Stuck(String),
}

/// An entry as the first server that applied it saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The term it was proposed in.
    pub term: u64,
    /// What it says and does, as a digest.
    pub content: String,
    /// What a stream of everything gets of it, as a digest; `None`: nothing.
    pub frame: Option<String>,
    /// The write of a client, if it took effect.
    pub write: Option<u64>,
}

/// The one record of a simulation.
#[derive(Debug)]
pub struct Record {
    started: Instant,
    sabotage: Option<Sabotage>,
    kept: Mutex<Kept>,
}

/// How much happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations of clients that were answered.
    pub answered: u64,
    /// Writes among them that took effect.
    pub acknowledged: u64,
    /// Machines that died.
    pub crashes: u64,
    /// Partitions, in one direction or both.
    pub partitions: u64,
    /// Terms in which somebody led.
    pub terms: u64,
    /// Checkpoints that a leader sent to a follower.
    pub installs: u64,
    /// Entries of the log.
    pub entries: u64,
    /// Changes of the membership.
    pub memberships: u64,
    /// Servers that went on after their disk had failed, without a new start.
    pub comebacks: u64,
    /// Servers that joined after the beginning.
    pub joins: u64,
    /// Bits that were flipped on disks.
    pub flips: u64,
    /// Servers that refused to start because of them.
    pub refusals: u64,
    /// Histories that were lost and filled anew.
    pub refills: u64,
    /// Nodes.
    pub nodes: u64,
    /// Allocations that were placed.
    pub placed: u64,
    /// Nodes that came back after they had been given up.
    pub reconnects: u64,
    /// Calls that a node made to another server because one had not answered.
    pub moves: u64,
    /// How long it took at the end until everything ran as it should, in milliseconds.
    pub rest_ms: u64,
}

impl Counts {
    /// Adds those of another run; of the time to rest, the longer.
    pub fn add(&mut self, more: &Self) {
        self.answered += more.answered;
        self.acknowledged += more.acknowledged;
        self.crashes += more.crashes;
        self.partitions += more.partitions;
        self.terms += more.terms;
        self.installs += more.installs;
        self.entries += more.entries;
        self.memberships += more.memberships;
        self.comebacks += more.comebacks;
        self.joins += more.joins;
        self.flips += more.flips;
        self.refusals += more.refusals;
        self.refills += more.refills;
        self.nodes += more.nodes;
        self.placed += more.placed;
        self.reconnects += more.reconnects;
        self.moves += more.moves;
        self.rest_ms = self.rest_ms.max(more.rest_ms);
    }
}

#[derive(Debug, Default)]
struct Kept {
    trace: blake3::Hasher,
    /// By when they were written, for one order of all of them.
    lines: VecDeque<(Duration, String)>,
    call_lines: VecDeque<(Duration, String)>,
    told: Vec<String>,
    found: Option<(Duration, Violation)>,
    calls: Vec<Call>,
    writes: Vec<Write>,
    streams: BTreeMap<u64, Vec<(u64, Vec<Frame>)>>,
    entries: BTreeMap<u64, Entry>,
    leaders: Leaders,
    digests: Digests,
    counts: Counts,
}

impl Record {
    /// An empty one, beginning now.
    pub fn new(sabotage: Option<Sabotage>) -> Self {
        Self { started: Instant::now(), sabotage, kept: Mutex::default() }
    }

    /// Whether this defect is put in.
    pub fn is_sabotaged(&self, how: Sabotage) -> bool {
        self.sabotage == Some(how)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the simulation began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Virtual nanoseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Something happened: part of the digest, and of the story.
    pub fn note(&self, line: &str) {
        let now = self.started.elapsed();
        let mut kept = self.kept();
        kept.trace.update(&now.as_nanos().to_le_bytes());
        kept.trace.update(line.as_bytes());
        keep(&mut kept.lines, now, line, LINES_KEPT);
    }

    /// Lines for people, at the end of the story.
    pub fn tell(&self, lines: Vec<String>) {
        self.kept().told.extend(lines);
    }

    /// Something happened that is too common for a story.
    fn trace(&self, what: &[u8]) {
        let now = self.started.elapsed();
        let mut kept = self.kept();
        kept.trace.update(&now.as_nanos().to_le_bytes());
        kept.trace.update(what);
    }

    /// A checker found something. The first counts: what follows may follow from it.
    pub fn found(&self, violation: Violation) {
        self.note(&format!("FOUND {violation}"));
        let now = self.started.elapsed();
        self.kept().found.get_or_insert((now, violation));
    }

    /// What was found first, and when.
    pub fn violation(&self) -> Option<(Duration, Violation)> {
        self.kept().found.clone()
    }

    /// Counts what happened.
    pub fn count(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.kept().counts);
    }

    /// How much happened so far.
    pub fn counts(&self) -> Counts {
        let kept = self.kept();
        Counts { terms: kept.leaders.terms() as u64, entries: kept.entries.len() as u64, ..kept.counts }
    }

    /// A digest of everything that happened.
    pub fn digest(&self) -> String {
        self.kept().trace.finalize().to_hex()[..16].to_owned()
    }

    /// The last lines.
    pub fn lines(&self) -> Vec<String> {
        let kept = self.kept();
        let mut lines: Vec<&(Duration, String)> = kept.lines.iter().chain(&kept.call_lines).collect();
        lines.sort_by_key(|(at, _)| *at);
        let lines = lines.into_iter().map(|(at, line)| format!("{:>10.3} {line}", at.as_secs_f64()));
        lines.chain(kept.told.iter().cloned()).collect()
    }

    /// A server's history was filled anew, from an index on.
    pub fn filled(&self, server: u64, oldest: u64) {
        self.note(&format!("server {server} filled its history anew from {oldest} on"));
        self.count(|counts| counts.refills += 1);
    }

    /// A server leads.
    pub fn leads(&self, term: u64, server: u64) {
        self.note(&format!("server {server} leads in term {term}"));
        let noted = self.kept().leaders.note(term, server);
        if let Err(why) = noted {
            self.found(Violation::Disagreement(why));
        }
    }

    /// A server applied an entry; every other has to apply the same there.
    pub fn applied(&self, server: u64, index: u64, entry: Entry, digest: u128) {
        self.trace(&[&index.to_le_bytes()[..], &server.to_le_bytes(), &digest.to_le_bytes()].concat());
        let differs = {
            let mut kept = self.kept();
            let first = kept.entries.entry(index).or_insert_with(|| entry.clone()).clone();
            let digests = kept.digests.note(index, server, digest);
            if first == entry {
                digests.err()
            } else {
                Some(format!("at index {index} server {server} applied {entry:?}, another {first:?}"))
            }
        };
        if let Some(why) = differs {
            self.found(Violation::Disagreement(why));
        }
    }

    /// A client's operation is over, as far as it will ever be.
    pub fn called(&self, call: Call, write: Option<Write>) {
        let (now, line) = (self.started.elapsed(), call.to_string());
        self.trace(line.as_bytes());
        let mut kept = self.kept();
        keep(&mut kept.call_lines, now, &line, CALLS_KEPT);
        kept.counts.answered += u64::from(call.returned.is_some());
        kept.counts.acknowledged +=
            u64::from(matches!(write.as_ref().map(|write| write.outcome), Some(crate::check::Outcome::Acknowledged(_))));
        kept.calls.push(call);
        kept.writes.extend(write);
    }

    /// A client's operation is known to have done nothing.
    pub fn refused(&self, write: Option<Write>) {
        self.kept().writes.extend(write);
    }

    /// A reader of the stream got a frame, or begins behind `after`.
    pub fn streamed(&self, reader: u64, after: u64, frame: Option<Frame>) {
        let mut kept = self.kept();
        let runs = kept.streams.entry(reader).or_default();
        match frame {
            None => runs.push((after, Vec::new())),
            Some(frame) => {
                if let Some((_, frames)) = runs.last_mut() {
                    frames.push(frame);
                }
            }
        }
    }

    /// Runs the checkers that need the whole.
    pub fn judge(&self) {
        let found = {
            let kept = self.kept();
            judge(&kept)
        };
        if let Err(violation) = found {
            self.found(violation);
        }
    }
}

fn keep(lines: &mut VecDeque<(Duration, String)>, at: Duration, line: &str, most: usize) {
    if lines.len() == most {
        lines.pop_front();
    }
    lines.push_back((at, line.to_owned()));
}

fn judge(kept: &Kept) -> Result<(), Violation> {
    let log = kept.entries.iter().filter_map(|(index, entry)| entry.write.map(|id| (*index, id)));
    writes_are_in_the_log(&kept.writes, log)?;
    let frame = |(index, entry): (&u64, &Entry)| Some(Frame { index: *index, content: entry.frame.clone()? });
    let frames: Vec<Frame> = kept.entries.iter().filter_map(frame).collect();
    for (reader, runs) in &kept.streams {
        for (after, got) in runs {
            stream_equals_log(*after, got, &frames).map_err(|error| Violation::Stream { reader: *reader, error })?;
        }
    }
    linearizable(&kept.calls)?;
    Ok(())
}
