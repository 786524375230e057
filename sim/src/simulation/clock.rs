//! The clocks of one machine: virtual, the wall clock with an offset, and both a little too fast or too slow. Waits end by
//! tokio's clock, which is the same for all machines: the shipped code notices by its own clock that one was too short or
//! too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use songline_model::{Dur, Time};
use tokio::time::Instant;

/// Wall-clock time at which every simulation begins, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_800_000_000_000;

/// A clock. Clones share its state.
#[derive(Debug, Clone)]
pub struct Clock {
    started: Instant,
    /// Rate: thousandths of a second that the clock counts in a second.
    rate_of_1000: u32,
    skew_ms: Arc<AtomicI64>,
}

impl Clock {
    /// Creates a clock with an offset of `skew_ms` milliseconds and a rate of `rate_of_1000` thousandths.
    pub fn new(started: Instant, skew_ms: i64, rate_of_1000: u32) -> Self {
        Self { started, rate_of_1000, skew_ms: Arc::new(AtomicI64::new(skew_ms)) }
    }

    /// Sets the wall clock's offset.
    pub fn set_skew(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }

    /// Time counted since the beginning, unaffected by setting the clock.
    pub fn steady(&self) -> Duration {
        self.started.elapsed() * self.rate_of_1000 / 1000
    }

    /// Real duration until the clock has counted `counted`.
    pub fn really(&self, counted: Duration) -> Duration {
        counted * 1000 / self.rate_of_1000
    }

    /// Wall-clock time in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        let passed = i64::try_from(self.steady().as_millis()).unwrap_or(i64::MAX);
        u64::try_from(BEGIN_MS + passed + self.skew_ms.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Wall-clock time.
    pub fn wall(&self) -> Time {
        let begin = Time::from_nanos((BEGIN_MS + self.skew_ms.load(Ordering::Relaxed)) * 1_000_000);
        begin.plus(Dur::from(self.steady()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fast_clock_counts_more_time() {
        let started = Instant::now();
        let clock = Clock::new(started, 2_000, 1100);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(clock.steady(), Duration::from_secs(11));
        assert_eq!(clock.now_ms(), 1_800_000_013_000);
        assert_eq!(clock.wall(), Time::from_secs(1_800_000_013));
    }
}
