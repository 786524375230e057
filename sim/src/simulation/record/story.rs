//! The story of a simulation: a digest of everything that happened, its last lines, its first finding, and counts.

use std::collections::VecDeque;
use std::time::Duration;

use super::Violation;

/// Number of the last lines that are kept.
const LINES_KEPT: usize = 60;
/// Number of the last operations of clients that are kept.
const CALLS_KEPT: usize = 20;

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
    /// Registrations of jobs of several regions that were acknowledged.
    pub registered: u64,
    /// Parts of jobs of several regions that ended successfully.
    pub finished: u64,
    /// Objects that leaders of regions wrote or deleted as the authoritative region has them.
    pub replicated: u64,
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
        self.registered += more.registered;
        self.finished += more.finished;
        self.replicated += more.replicated;
        self.rest_ms = self.rest_ms.max(more.rest_ms);
    }
}

/// The story.
#[derive(Debug, Default)]
pub(super) struct Story {
    trace: blake3::Hasher,
    /// Lines by their time, for one order of all of them.
    lines: VecDeque<(Duration, String)>,
    call_lines: VecDeque<(Duration, String)>,
    /// Lines for readers.
    pub(super) told: Vec<String>,
    /// The first finding of a checker, and its time.
    pub(super) found: Option<(Duration, Violation)>,
    /// Counts.
    pub(super) counts: Counts,
}

impl Story {
    /// Adds an event to the digest.
    pub(super) fn trace(&mut self, at: Duration, what: &[u8]) {
        self.trace.update(&at.as_nanos().to_le_bytes());
        self.trace.update(what);
    }

    /// Adds a line.
    pub(super) fn note(&mut self, at: Duration, line: String) {
        self.trace(at, line.as_bytes());
        keep(&mut self.lines, at, line, LINES_KEPT);
    }

    /// Adds the line of a client's operation.
    pub(super) fn note_call(&mut self, at: Duration, line: String) {
        keep(&mut self.call_lines, at, line, CALLS_KEPT);
    }

    /// The digest.
    pub(super) fn digest(&self) -> String {
        self.trace.finalize().to_hex()[..16].to_owned()
    }

    /// The last lines, and those for readers.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<&(Duration, String)> = self.lines.iter().chain(&self.call_lines).collect();
        lines.sort_by_key(|(at, _)| *at);
        let lines = lines.into_iter().map(|(at, line)| format!("{:>10.3} {line}", at.as_secs_f64()));
        lines.chain(self.told.iter().cloned()).collect()
    }
}

fn keep(lines: &mut VecDeque<(Duration, String)>, at: Duration, line: String, most: usize) {
    if lines.len() == most {
        lines.pop_front();
    }
    lines.push_back((at, line));
}
