//! Progress of the writers: the number of acknowledged writes, and the longest time without one. Not here: the
//! content of the writes.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use parking_lot::{Condvar, Mutex, MutexGuard};

/// Counts that writers update and the fault injector reads.
pub struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Writes acknowledged since the beginning.
    acknowledged: u64,
    /// Start of the current measurement of gaps.
    mark: Instant,
    last: Instant,
    longest_gap: Duration,
    /// By server: writes that were both sent and acknowledged since the mark.
    since_mark: Vec<u64>,
}

impl Progress {
    pub fn new(servers: usize) -> Progress {
        let now = Instant::now();
        let state =
            State { acknowledged: 0, mark: now, last: now, longest_gap: Duration::ZERO, since_mark: vec![0; servers] };
        Progress { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Records a write that was sent to `server` at `sent` and is acknowledged now.
    pub fn acknowledge(&self, server: usize, sent: Instant) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let since = state.last.max(state.mark);
        state.longest_gap = state.longest_gap.max(now.saturating_duration_since(since));
        state.last = now;
        state.acknowledged += 1;
        if sent >= state.mark {
            state.since_mark[server] += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Writes acknowledged since the beginning.
    pub fn acknowledged(&self) -> u64 {
        self.state.lock().acknowledged
    }

    /// By server: writes that were both sent and acknowledged since the mark.
    pub fn since_mark(&self) -> Vec<u64> {
        self.state.lock().since_mark.clone()
    }

    /// Starts a new measurement of gaps.
    pub fn mark(&self) {
        let mut state = self.state.lock();
        state.mark = Instant::now();
        state.longest_gap = Duration::ZERO;
        state.since_mark.fill(0);
    }

    /// Waits for `count` writes that were sent and acknowledged since the mark, and returns the longest time without
    /// an acknowledged write.
    pub fn back(&self, count: u64, within: Duration) -> Result<Duration> {
        let state = self.wait(within, |state| state.since_mark.iter().sum::<u64>() >= count);
        if state.since_mark.iter().sum::<u64>() < count {
            bail!("writes did not come back within {} s: by server {:?}", within.as_secs(), state.since_mark);
        }
        Ok(state.longest_gap)
    }

    /// Waits until each of these servers has acknowledged `count` writes that were sent to it since the mark.
    pub fn back_through(&self, servers: &[usize], count: u64, within: Duration) -> Result<()> {
        let there = |state: &State| servers.iter().all(|server| state.since_mark[*server] >= count);
        let state = self.wait(within, there);
        if !there(&state) {
            bail!(
                "writes did not come back through {servers:?} within {} s: by server {:?}",
                within.as_secs(),
                state.since_mark
            );
        }
        Ok(())
    }

    /// Waits for this time while writers run, and returns the number of writes acknowledged in it.
    pub fn over(&self, time: Duration) -> u64 {
        let before = self.acknowledged();
        let state = self.wait(time, |_| false);
        state.acknowledged - before
    }

    fn wait(&self, within: Duration, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !is_so(state), within);
        state
    }
}

/// Durations, for printing.
#[derive(Debug, Default, Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn extend(&mut self, other: &Times) {
        self.0.extend(&other.0);
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).map_or(0, Duration::as_millis)
        };
        write!(f, "p50 {} ms, p99 {} ms, most {} ms of {}", at(50), at(99), at(100), sorted.len())
    }
}
