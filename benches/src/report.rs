//! Output of numbers for readers.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies in microseconds.
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn new() -> Self {
        // Up to ten minutes, with three significant digits.
        Self(Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are sound"))
    }

    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    pub fn merge(&mut self, other: &Latencies) {
        // The bounds are equal, so the addition cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// Number of recorded latencies.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// One line: count, rate and percentiles in milliseconds.
    pub fn print(&self, what: &str, took: Duration) {
        let ms = |quantile: f64| self.0.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "{what}: {} in {:.2} s, {:.0}/s; p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, max {:.3} ms",
            self.0.len(),
            took.as_secs_f64(),
            self.0.len() as f64 / took.as_secs_f64(),
            ms(0.50),
            ms(0.99),
            ms(0.999),
            self.0.max() as f64 / 1e3,
        );
    }
}
