//! Histogram of the time for which applying holds the state. Any thread reads it without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of 0.01 ms up to 20 ms; the last bucket counts everything slower.
const BUCKETS: usize = 2_000;
const BUCKET_NANOS: u64 = 10_000;

/// Times of batches: decoding, applying and publishing in the one applying thread.
#[derive(Debug)]
pub struct ApplyTimes {
    buckets: Box<[AtomicU64]>,
    longest_nanos: AtomicU64,
}

impl Default for ApplyTimes {
    fn default() -> Self {
        Self { buckets: (0..=BUCKETS).map(|_| AtomicU64::new(0)).collect(), longest_nanos: AtomicU64::new(0) }
    }
}

impl ApplyTimes {
    pub(crate) fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = usize::try_from(nanos / BUCKET_NANOS).unwrap_or(BUCKETS).min(BUCKETS);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Number of batches.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Duration of the longest batch.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_nanos.load(Ordering::Relaxed))
    }

    /// Quantile of the batch times, for a share such as 0.999; the longest time where the quantile is beyond the
    /// buckets.
    pub fn quantile(&self, share: f64) -> Duration {
        let left_out = (self.count() as f64 * (1.0 - share)).floor() as u64;
        let mut above = 0;
        for (at, bucket) in self.buckets.iter().enumerate().rev() {
            above += bucket.load(Ordering::Relaxed);
            if above > left_out {
                let within = Duration::from_nanos((at as u64 + 1) * BUCKET_NANOS);
                return if at == BUCKETS { self.longest() } else { within.min(self.longest()) };
            }
        }
        Duration::ZERO
    }

    /// Clears the histogram.
    pub fn reset(&self) {
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
        self.longest_nanos.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_time_quantiles_match_the_recorded_times() {
        let times = ApplyTimes::default();
        assert_eq!(times.quantile(0.5), Duration::ZERO);
        (1..=1000).for_each(|n| times.record(Duration::from_micros(n)));
        times.record(Duration::from_millis(70));
        assert_eq!((times.count(), times.longest()), (1001, Duration::from_millis(70)));
        assert_eq!(times.quantile(1.0), Duration::from_millis(70));
        assert_eq!(times.quantile(0.5), Duration::from_micros(510));
        times.reset();
        assert_eq!((times.count(), times.longest()), (0, Duration::ZERO));
    }
}
