//! Record of a simulation: a digest of everything that happened, the last lines of its story, the input of the
//! checkers, and their findings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::plan::Sabotage;
use crate::check::linear::{Call, NotLinearizable};
use crate::check::{
    AccessError, Digests, Frame, Launch, LaunchError, Launches, Leaders, PlacementError, PreemptionError, StreamError,
    TooManyAtOnce, UnsettledError, Write, WriteError, linearizable, stream_equals_log, writes_are_in_the_log,
};

/// Number of the last lines that are kept for the story.
const LINES_KEPT: usize = 60;
/// Number of the last operations of clients that are kept.
const CALLS_KEPT: usize = 20;

/// A finding of a checker.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Violation {
    /// Servers differ where they must agree.
    #[error("{0}")]
    Disagreement(String),
    /// A write is lost, duplicated or invented.
    #[error(transparent)]
    Writes(#[from] WriteError),
    /// Answers that no order explains.
    #[error(transparent)]
    Answers(#[from] NotLinearizable),
    /// A stream differs from the log.
    #[error("reader {reader}: {error}")]
    Stream {
        /// The subscriber.
        reader: u64,
        /// The difference.
        error: StreamError,
    },
    /// A server failed although its machine was healthy.
    #[error("server {server} failed: {why}")]
    Failed {
        /// Server id.
        server: u64,
        /// Its error.
        why: String,
    },
    /// Jobs are not placed as they should be.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Something is left to be done for the jobs.
    #[error(transparent)]
    Unsettled(#[from] UnsettledError),
    /// A periodic job was launched twice, too early, or not at all.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// An allocation was preempted without a right.
    #[error(transparent)]
    Preemption(#[from] PreemptionError),
    /// A caller got done what it has no right to.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A deployment replaced too many allocations at once.
    #[error(transparent)]
    Rollout(#[from] TooManyAtOnce),
    /// No fault is left and the cluster makes no progress.
    #[error("{0}")]
    Stuck(String),
}

/// An entry as the first server that applied it saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Term of the entry.
    pub term: u64,
    /// Digest of its content and effect.
    pub content: String,
    /// Digest of its events in an unfiltered stream; `None` without events.
    pub frame: Option<String>,
    /// Id of the client's write, if it took effect.
    pub write: Option<u64>,
}

/// The one record of a simulation.
#[derive(Debug)]
pub struct Record {
    started: Instant,
    sabotage: Option<Sabotage>,
    kept: Mutex<Kept>,
}

/// Counts of what happened.
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
    /// Terms with a leader.
    pub terms: u64,
    /// Checkpoints that a leader sent to a follower.
    pub installs: u64,
    /// Entries of the log.
    pub entries: u64,
    /// Changes of the membership.
    pub memberships: u64,
    /// Servers that recovered from a disk failure without a restart.
    pub comebacks: u64,
    /// Servers that joined after the beginning.
    pub joins: u64,
    /// Bits that were flipped on disks.
    pub flips: u64,
    /// Servers that refused to start because of flipped bits.
    pub refusals: u64,
    /// Event histories that were lost and rebuilt.
    pub refills: u64,
    /// Nodes.
    pub nodes: u64,
    /// Allocations that were placed.
    pub placed: u64,
    /// Allocations that were preempted.
    pub preempted: u64,
    /// Children of periodic jobs.
    pub launched: u64,
    /// Children of parameterized jobs.
    pub dispatched: u64,
    /// Groups whose canaries were promoted.
    pub promoted: u64,
    /// Answers to callers with few rights.
    pub calls: u64,
    /// Deployments that failed.
    pub failed_deployments: u64,
    /// Nodes that reconnected after they had been marked as down or disconnected.
    pub reconnects: u64,
    /// Calls that a node repeated at another server because one had not answered.
    pub moves: u64,
    /// Time at the end until all jobs ran as they should, in milliseconds.
    pub rest_ms: u64,
}

impl Counts {
    /// Adds the counts of another run; of `rest_ms`, the larger one is kept.
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
        self.preempted += more.preempted;
        self.launched += more.launched;
        self.dispatched += more.dispatched;
        self.promoted += more.promoted;
        self.calls += more.calls;
        self.failed_deployments += more.failed_deployments;
        self.reconnects += more.reconnects;
        self.moves += more.moves;
        self.rest_ms = self.rest_ms.max(more.rest_ms);
    }
}

#[derive(Debug, Default)]
struct Kept {
    trace: blake3::Hasher,
    /// Lines by their time, for one order of all of them.
    lines: VecDeque<(Duration, String)>,
    call_lines: VecDeque<(Duration, String)>,
    told: Vec<String>,
    found: Option<(Duration, Violation)>,
    calls: Vec<Call>,
    writes: Vec<Write>,
    streams: BTreeMap<u64, Vec<(u64, Vec<Frame>)>>,
    entries: BTreeMap<u64, Entry>,
    leaders: Leaders,
    /// Index of the newest entry at each time when a server began to lead.
    begins: BTreeSet<u64>,
    digests: Digests,
    launches: Launches,
    counts: Counts,
}

impl Record {
    /// Creates an empty record that begins now.
    pub fn new(sabotage: Option<Sabotage>) -> Self {
        Self { started: Instant::now(), sabotage, kept: Mutex::default() }
    }

    /// Whether this defect is injected.
    pub fn is_sabotaged(&self, how: Sabotage) -> bool {
        self.sabotage == Some(how)
    }

    /// The injected defect.
    pub fn sabotage(&self) -> Option<Sabotage> {
        self.sabotage
    }

    /// Start of the simulation.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Virtual nanoseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Records an event in the digest and the story.
    pub fn note(&self, line: &str) {
        let now = self.started.elapsed();
        let mut kept = self.kept.lock();
        kept.trace.update(&now.as_nanos().to_le_bytes());
        kept.trace.update(line.as_bytes());
        keep(&mut kept.lines, now, line, LINES_KEPT);
    }

    /// Appends lines for readers to the story.
    pub fn tell(&self, lines: Vec<String>) {
        self.kept.lock().told.extend(lines);
    }

    /// Records an event that is too frequent for the story in the digest only.
    fn trace(&self, what: &[u8]) {
        let now = self.started.elapsed();
        let mut kept = self.kept.lock();
        kept.trace.update(&now.as_nanos().to_le_bytes());
        kept.trace.update(what);
    }

    /// Records a finding of a checker. Only the first is kept: later ones may be its consequences.
    pub fn found(&self, violation: Violation) {
        self.note(&format!("FOUND {violation}"));
        let now = self.started.elapsed();
        self.kept.lock().found.get_or_insert((now, violation));
    }

    /// The first finding, and its time.
    pub fn violation(&self) -> Option<(Duration, Violation)> {
        self.kept.lock().found.clone()
    }

    /// Updates the counts.
    pub fn count(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.kept.lock().counts);
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let kept = self.kept.lock();
        let (terms, entries) = (kept.leaders.terms() as u64, kept.entries.len() as u64);
        Counts { terms, entries, launched: kept.launches.len() as u64, ..kept.counts }
    }

    /// Digest of everything that happened.
    pub fn digest(&self) -> String {
        self.kept.lock().trace.finalize().to_hex()[..16].to_owned()
    }

    /// The last lines.
    pub fn lines(&self) -> Vec<String> {
        let kept = self.kept.lock();
        let mut lines: Vec<&(Duration, String)> = kept.lines.iter().chain(&kept.call_lines).collect();
        lines.sort_by_key(|(at, _)| *at);
        let lines = lines.into_iter().map(|(at, line)| format!("{:>10.3} {line}", at.as_secs_f64()));
        lines.chain(kept.told.iter().cloned()).collect()
    }

    /// Records that a server's store was rebuilt, from an index on.
    pub fn filled(&self, server: u64, store: &str, oldest: u64) {
        self.note(&format!("server {server} filled its store {store} anew from {oldest} on"));
        self.count(|counts| counts.refills += 1);
    }

    /// Records that a server begins to lead, in a new term or again in the same one.
    pub fn leads(&self, term: u64, server: u64) {
        self.note(&format!("server {server} leads in term {term}"));
        let noted = {
            let mut kept = self.kept.lock();
            let newest = kept.entries.last_key_value().map_or(0, |(index, _)| *index);
            kept.begins.insert(newest);
            kept.leaders.note(term, server)
        };
        if let Err(why) = noted {
            self.found(Violation::Disagreement(why));
        }
    }

    /// Records that a server applied an entry; all other servers have to apply the same entry at this index. Returns
    /// whether it is the first that did.
    pub fn applied(&self, server: u64, index: u64, entry: Entry, digest: u128) -> bool {
        self.trace(&[&index.to_le_bytes()[..], &server.to_le_bytes(), &digest.to_le_bytes()].concat());
        let mut is_first = false;
        let differs = {
            let mut kept = self.kept.lock();
            is_first |= !kept.entries.contains_key(&index);
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
        is_first
    }

    /// Whether a server began to lead after the entry at this index. A leader that lost its majority and regained it
    /// begins anew, like any other.
    pub fn began_since(&self, index: u64) -> bool {
        self.kept.lock().begins.range(index..).next().is_some()
    }

    /// Records the launch of a periodic job.
    pub fn launched(&self, launch: &Launch) {
        let noted = self.kept.lock().launches.note(launch);
        if let Err(error) = noted {
            self.found(error.into());
        }
    }

    /// Records a client's completed or abandoned operation.
    pub fn called(&self, call: Call, write: Option<Write>) {
        let (now, line) = (self.started.elapsed(), call.to_string());
        self.trace(line.as_bytes());
        let mut kept = self.kept.lock();
        keep(&mut kept.call_lines, now, &line, CALLS_KEPT);
        kept.counts.answered += u64::from(call.returned.is_some());
        kept.counts.acknowledged += u64::from(matches!(
            write.as_ref().map(|write| write.outcome),
            Some(crate::check::Outcome::Acknowledged(_))
        ));
        kept.calls.push(call);
        kept.writes.extend(write);
    }

    /// Records a client's operation that is known to have had no effect.
    pub fn refused(&self, write: Option<Write>) {
        self.kept.lock().writes.extend(write);
    }

    /// Records a frame that a subscriber received; without a frame, its start after `after`.
    pub fn streamed(&self, reader: u64, after: u64, frame: Option<Frame>) {
        let mut kept = self.kept.lock();
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

    /// Runs the checkers that need the whole record.
    pub fn judge(&self) {
        let found = {
            let kept = self.kept.lock();
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
