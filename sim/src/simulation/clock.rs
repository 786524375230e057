//! The clocks of one machine: virtual, the wall clock wrong by as much as it was set wrong, and both a little too fast or too slow.
//! tokio's own clock is the same for all: whoever waits by a machine's clock asks it how long that is.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use songline_model::{Dur, Time};
use songline_scheduler::leader::pace::Pace;
use tokio::time::Instant;

use super::machine::locked;

/// The wall time at which every simulation begins, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_800_000_000_000;

/// A clock. Clones share it.
#[derive(Debug, Clone)]
pub struct Clock {
    started: Instant,
    /// How many thousandths of a second it counts in a second.
    rate_of_1000: u32,
    skew_ms: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that is wrong by `skew_ms` milliseconds and counts so many thousandths of a second in a second.
    pub fn new(started: Instant, skew_ms: i64, rate_of_1000: u32) -> Self {
        Self { started, rate_of_1000, skew_ms: Arc::new(AtomicI64::new(skew_ms)) }
    }

    /// Somebody sets it.
    pub fn set_skew(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }

    /// What it has counted since the beginning, whoever set it.
    pub fn steady(&self) -> Duration {
        self.started.elapsed() * self.rate_of_1000 / 1000
    }

    /// How long it really takes until it has counted this.
    pub fn really(&self, counted: Duration) -> Duration {
        counted * 1000 / self.rate_of_1000
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        let passed = i64::try_from(self.steady().as_millis()).unwrap_or(i64::MAX);
        u64::try_from(BEGIN_MS + passed + self.skew_ms.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The same as time.
    pub fn wall(&self) -> Time {
        let begin = Time::from_nanos((BEGIN_MS + self.skew_ms.load(Ordering::Relaxed)) * 1_000_000);
        begin.plus(Dur::from(self.steady()))
    }

    /// Waits until this much is counted; `None`: for ever.
    pub async fn count(&self, span: Option<Dur>) {
        match span {
            Some(span) if span > Dur::ZERO => tokio::time::sleep(self.really(span.to_std())).await,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// What a process makes of its machine's clock: see the scheduler's `pace`.
#[derive(Debug)]
pub struct Paced {
    clock: Clock,
    told: Mutex<Pace>,
}

impl Paced {
    /// For a process that begins now.
    pub fn new(clock: Clock) -> Self {
        let told = Mutex::new(Pace::new(clock.wall(), clock.steady()));
        Self { clock, told }
    }

    fn read(&self) -> Pace {
        let mut told = locked(&self.told);
        told.read(self.clock.wall(), self.clock.steady());
        *told
    }

    /// What is written into the log.
    pub fn now(&self) -> Time {
        self.read().now
    }

    /// What waiting goes by.
    pub fn pace(&self) -> Time {
        self.read().pace
    }

    /// The log is further.
    pub fn not_before(&self, at: Time) {
        locked(&self.told).not_before(at);
    }

    /// Waits until the pace is there; `None`: for ever.
    pub async fn until(&self, at: Option<Time>) {
        self.clock.count(at.map(|at| at.since(self.pace()))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_counts_more_and_is_waited_for_less_long() {
        let started = Instant::now();
        let clock = Clock::new(started, 2_000, 1100);
        clock.count(Some(Dur::from_secs(11))).await;
        assert_eq!(started.elapsed(), Duration::from_secs(10));
        assert_eq!(clock.steady(), Duration::from_secs(11));
        assert_eq!(clock.now_ms(), 1_800_000_013_000);
        assert_eq!(clock.wall(), Time::from_secs(1_800_000_013));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_forward_ends_no_wait_at_once() {
        let clock = Clock::new(Instant::now(), 0, 1000);
        let paced = Paced::new(clock.clone());
        let until = paced.pace().plus(Dur::from_secs(60));
        clock.set_skew(3_600_000);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((paced.now(), until.since(paced.pace())), (clock.wall(), Dur::from_secs(40)));
    }
}
