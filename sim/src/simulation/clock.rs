//! The clocks of one machine: virtual, the wall clock with an offset, and both a little too fast or too slow. tokio's
//! clock is the same for all machines: a wait by a machine's clock is converted to tokio's time.

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

    /// Waits until this much is counted; `None` waits for ever.
    pub async fn count(&self, span: Option<Dur>) {
        match span {
            Some(span) if span > Dur::ZERO => tokio::time::sleep(self.really(span.to_std())).await,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fast_clock_counts_more_time_and_ends_waits_sooner() {
        let started = Instant::now();
        let clock = Clock::new(started, 2_000, 1100);
        clock.count(Some(Dur::from_secs(11))).await;
        assert_eq!(started.elapsed(), Duration::from_secs(10));
        assert_eq!(clock.steady(), Duration::from_secs(11));
        assert_eq!(clock.now_ms(), 1_800_000_013_000);
        assert_eq!(clock.wall(), Time::from_secs(1_800_000_013));
    }
}
