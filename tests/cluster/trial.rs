//! A cluster under load, and the final checks after any faults: no acknowledged write is lost, none took effect
//! twice, streams have no gap, also for a subscriber that changed servers, and all servers have the same stream and
//! the same state.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use songline_sim::check::linear;

use crate::cluster::{Cluster, WITHIN};
use crate::history::{self, Totals};
use crate::progress::Progress;
use crate::registers::Registers;
use crate::say;
use crate::stream::{Roamer, read_whole};
use crate::switch::Faults;
use crate::writers::Writers;

/// Prefix of the writers' node pools.
const RUN: &str = "load";
/// Timeout of reading a whole stream.
const READ_WITHIN: Duration = Duration::from_secs(600);

/// A cluster, writers, clients of registers and a subscriber.
pub struct Trial {
    pub cluster: Cluster,
    writers: Writers,
    registers: Registers,
    roamer: Roamer,
    /// By server: the index after which its stream must be complete.
    since: Vec<u64>,
}

impl Trial {
    /// Starts `writers` writers on a cluster, and waits until all servers accept writes.
    pub fn start(cluster: Cluster, writers: usize, seed: u64) -> Result<Trial> {
        let addresses = cluster.addresses();
        let roamer = Roamer::start(&addresses, 1, RUN)?;
        let writers = Writers::start(&addresses, writers, RUN)?;
        let registers = Registers::start(&addresses, seed)?;
        let since = vec![0; addresses.len()];
        let trial = Trial { cluster, writers, registers, roamer, since };
        trial.all_serve().context("before any fault")?;
        Ok(trial)
    }

    pub fn progress(&self) -> &Progress {
        &self.writers.progress
    }

    /// Starts a new measurement of gaps, and waits until each server has acknowledged a write.
    pub fn all_serve(&self) -> Result<()> {
        self.progress().mark();
        let all: Vec<usize> = (0..self.cluster.servers.len()).collect();
        self.progress().back_through(&all, 3, WITHIN).with_context(|| self.cluster.last_words())
    }

    /// Waits until writes continue, and returns the longest time since the mark without an acknowledged write.
    pub fn back(&self, count: u64) -> Result<Duration> {
        self.progress().back(count, WITHIN).with_context(|| self.cluster.last_words())
    }

    /// Excludes events up to `index` from the check of server `n`'s stream.
    pub fn tells_since(&mut self, n: usize, index: u64) {
        self.since[n] = index;
    }

    /// Stops the load and checks everything. All servers must run.
    pub fn finish(mut self, what: &str) -> Result<Totals> {
        self.cluster.set(Faults::default());
        let outcomes = self.writers.finish()?;
        let calls = self.registers.finish()?;
        let mut index = 0;
        for n in 0..self.cluster.servers.len() {
            index = self.cluster.write_through(n, &format!("last-{n}"))?;
        }
        self.cluster.all_reach(index)?;
        let (events, moves) = self.roamer.finish(index, READ_WITHIN)?;
        let totals = history::check(&outcomes, &events)?;
        for (server, since) in self.cluster.servers.iter().zip(&self.since) {
            let told = read_whole(server.http, *since, index, RUN, READ_WITHIN)?;
            let expected = &events[events.partition_point(|event| event.index <= *since)..];
            let differ = told.iter().zip(expected).find(|(a, b)| a != b);
            let (name, counts, ends) = (&server.name, (told.len(), expected.len()), (told.last(), expected.last()));
            ensure!(
                told == expected,
                "{name} tells {} events and not {}; first other: {differ:?}; last: {ends:?}",
                counts.0,
                counts.1
            );
        }
        linear::check(&calls).map_err(|error| anyhow!("{error}"))?;
        let digest = self.cluster.digests_agree(index)?;
        say(&format!(
            "{what}: {} writes acknowledged, 0 lost, 0 doubled; {} unknown, of which {} happened; {} events equal on all servers, the subscriber \
             moved {moves} times; {} reads and conditional writes linearizable; digest {digest} at {index} on all",
            totals.acknowledged,
            totals.unknown,
            totals.happened,
            events.len(),
            calls.len()
        ));
        Ok(totals)
    }
}
