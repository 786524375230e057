//! Record of a simulation: its story, the input of the checkers, and their findings.

mod story;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::plan::Sabotage;
use crate::check::linear::{Call, NotLinearizable};
use crate::check::{
    AccessError, Digests, Frame, Launch, LaunchError, Launches, Leaders, PlacementError, PreemptionError, RegionsError,
    ReplicaError, Rollouts, StreamError, TooManyAtOnce, UnsettledError, Write, WriteError, linearizable,
    stream_equals_log, writes_are_in_the_log,
};
pub use story::Counts;
use story::Story;

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
    /// A job of several regions is not rolled out as its regions and strategy say.
    #[error(transparent)]
    Regions(#[from] RegionsError),
    /// A region has not the objects of the authoritative region.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
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

/// The record of one cluster in a simulation. Clusters of several regions share their story and their first finding.
#[derive(Debug)]
pub struct Record {
    started: Instant,
    sabotage: Option<Sabotage>,
    /// Name of the cluster's region with a space, in front of each line; empty in a simulation of one cluster.
    region: String,
    story: Arc<Mutex<Story>>,
    /// Checker of the jobs of several regions, if there are several.
    rollouts: Option<Arc<Mutex<Rollouts>>>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    calls: Vec<Call>,
    writes: Vec<Write>,
    streams: BTreeMap<u64, Vec<(u64, Vec<Frame>)>>,
    entries: BTreeMap<u64, Entry>,
    leaders: Leaders,
    /// Index of the newest entry at each time when a server began to lead.
    begins: BTreeSet<u64>,
    digests: Digests,
    launches: Launches,
}

impl Record {
    /// Creates an empty record that begins now.
    pub fn new(sabotage: Option<Sabotage>) -> Self {
        Self {
            started: Instant::now(),
            sabotage,
            region: String::new(),
            story: Arc::default(),
            rollouts: None,
            kept: Mutex::default(),
        }
    }

    /// Creates an empty record for each region, with one story.
    pub fn of_regions(sabotage: Option<Sabotage>, regions: &[&str]) -> Vec<Self> {
        let whole = Self { rollouts: Some(Arc::default()), ..Self::new(sabotage) };
        let of = |region: &&str| Self {
            region: format!("{region} "),
            story: Arc::clone(&whole.story),
            rollouts: whole.rollouts.clone(),
            kept: Mutex::default(),
            ..whole
        };
        regions.iter().map(of).collect()
    }

    /// Name of the cluster's region; empty in a simulation of one cluster.
    pub fn region(&self) -> &str {
        self.region.trim_end()
    }

    /// The checker of the jobs of several regions, if there are several.
    pub fn rollouts(&self) -> Option<MutexGuard<'_, Rollouts>> {
        self.rollouts.as_ref().map(|rollouts| rollouts.lock())
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
        self.story.lock().note(self.started.elapsed(), format!("{}{line}", self.region));
    }

    /// Appends lines for readers to the story.
    pub fn tell(&self, lines: Vec<String>) {
        self.story.lock().told.extend(lines);
    }

    /// Records an event that is too frequent for the story in the digest only.
    fn trace(&self, what: &[u8]) {
        self.story.lock().trace(self.started.elapsed(), &[self.region.as_bytes(), what].concat());
    }

    /// Records a finding of a checker. Only the first is kept: later ones may be its consequences.
    pub fn found(&self, violation: Violation) {
        self.note(&format!("FOUND {violation}"));
        let now = self.started.elapsed();
        self.story.lock().found.get_or_insert((now, violation));
    }

    /// The first finding, and its time.
    pub fn violation(&self) -> Option<(Duration, Violation)> {
        self.story.lock().found.clone()
    }

    /// Updates the counts.
    pub fn count(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.story.lock().counts);
    }

    /// The counts so far, of all regions except for what the logs of the others have.
    pub fn counts(&self) -> Counts {
        let mut counts = self.story.lock().counts;
        counts.add(&self.of_log());
        counts
    }

    /// Counts of what the log of this cluster has.
    pub fn of_log(&self) -> Counts {
        let kept = self.kept.lock();
        let (terms, entries) = (kept.leaders.terms() as u64, kept.entries.len() as u64);
        Counts { terms, entries, launched: kept.launches.len() as u64, ..Counts::default() }
    }

    /// Digest of everything that happened.
    pub fn digest(&self) -> String {
        self.story.lock().digest()
    }

    /// The last lines.
    pub fn lines(&self) -> Vec<String> {
        self.story.lock().lines()
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
        let is_acknowledged =
            matches!(write.as_ref().map(|write| write.outcome), Some(crate::check::Outcome::Acknowledged(_)));
        {
            let mut story = self.story.lock();
            story.note_call(now, line);
            story.counts.answered += u64::from(call.returned.is_some());
            story.counts.acknowledged += u64::from(is_acknowledged);
        }
        let mut kept = self.kept.lock();
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
