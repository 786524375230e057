//! A series: its totals since the start, and its values during the last complete interval.
//!
//! A measurement touches one series only: an atomic for a count, a lock of the series' own for a value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Count, sum, bounds and deviation of the values of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Window {
    pub count: u64,
    pub sum: f64,
    squares: f64,
    /// 0 without values.
    pub min: f64,
    /// 0 without values.
    pub max: f64,
}

impl Window {
    /// A window of `count` values of 1.
    fn ones(count: u64) -> Self {
        let (sum, bound) = (count as f64, f64::from(u8::from(count > 0)));
        Self { count, sum, squares: sum, min: bound, max: bound }
    }

    fn add(&mut self, value: f64) {
        let first = self.count == 0;
        self.min = if first { value } else { self.min.min(value) };
        self.max = if first { value } else { self.max.max(value) };
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// The mean; 0 without values.
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The standard deviation of a sample; 0 with fewer than two values.
    pub(crate) fn stddev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let count = self.count as f64;
        let variance = (count * self.squares - self.sum * self.sum) / (count * (count - 1.0));
        variance.max(0.0).sqrt()
    }
}

/// Quantiles that are shown: the share of values, and the label.
pub(crate) const QUANTILES: [(f64, &str); 3] = [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99")];

/// A series as a scrape reads it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measurement {
    /// Number of values since the start.
    pub count: u64,
    /// Sum of the values since the start.
    pub sum: f64,
    /// The values of the last complete interval, or of the first one while it lasts.
    pub window: Window,
    /// Quantiles of the same interval as `window`; NaN without values.
    pub quantiles: [f64; QUANTILES.len()],
}

/// The interval that a scrape reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The current one.
    Current,
    /// The last complete one.
    Finished,
}

/// Counts events, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    total: AtomicU64,
    marks: Marks,
}

/// Splits a growing total into intervals.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The total at the start of the current interval.
    begun: AtomicU64,
    /// The growth during the last complete interval.
    finished: AtomicU64,
}

impl Marks {
    /// Ends the interval at this total.
    pub(super) fn rotate(&self, total: u64) {
        let begun = self.begun.swap(total, Ordering::Relaxed);
        self.finished.store(total.saturating_sub(begun), Ordering::Relaxed);
    }

    /// The measurement of a total.
    pub(super) fn read(&self, total: u64, shown: Shown) -> Measurement {
        let during = match shown {
            Shown::Current => total.saturating_sub(self.begun.load(Ordering::Relaxed)),
            Shown::Finished => self.finished.load(Ordering::Relaxed),
        };
        Measurement::counted(total, during)
    }
}

impl Counter {
    pub(crate) fn add_one(&self) {
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rotate(&self) {
        self.marks.rotate(self.total.load(Ordering::Relaxed));
    }

    pub(crate) fn read(&self, shown: Shown) -> Measurement {
        self.marks.read(self.total.load(Ordering::Relaxed), shown)
    }
}

/// Measures values.
#[derive(Debug, Default)]
pub(crate) struct Series(Mutex<Values>);

#[derive(Debug, Default)]
struct Values {
    count: u64,
    sum: f64,
    current: Interval,
    finished: Interval,
}

#[derive(Debug, Default)]
struct Interval {
    window: Window,
    buckets: Buckets,
}

impl Series {
    pub(crate) fn add(&self, value: f64) {
        let mut values = self.0.lock();
        values.count += 1;
        values.sum += value;
        values.current.window.add(value);
        values.current.buckets.add(value);
    }

    pub(crate) fn rotate(&self) {
        let mut values = self.0.lock();
        let Values { current, finished, .. } = &mut *values;
        std::mem::swap(current, finished);
        current.clear();
    }

    pub(crate) fn read(&self, shown: Shown) -> Measurement {
        let values = self.0.lock();
        let interval = match shown {
            Shown::Current => &values.current,
            Shown::Finished => &values.finished,
        };
        Measurement {
            count: values.count,
            sum: values.sum,
            window: interval.window,
            quantiles: QUANTILES.map(|(share, _)| interval.buckets.quantile(share, &interval.window)),
        }
    }
}

impl Interval {
    fn clear(&mut self) {
        if self.window.count > 0 {
            self.window = Window::default();
            self.buckets.clear();
        }
    }
}

/// The lowest power of two with a bucket of its own: in milliseconds, 60 ns.
const LOWEST_POWER: i64 = -14;
/// Highest power of two with a bucket of its own: in milliseconds, four and a half hours.
const HIGHEST_POWER: i64 = 24;
/// Number of buckets for each power of two: a quantile is at most 12.5 % too high.
const PARTS: i64 = 8;
const BUCKETS: usize = ((HIGHEST_POWER - LOWEST_POWER) * PARTS) as usize;

/// A histogram of values. Takes no memory before the first value.
#[derive(Debug, Default)]
struct Buckets(Vec<u32>);

impl Buckets {
    fn add(&mut self, value: f64) {
        if self.0.is_empty() {
            self.0.resize(BUCKETS, 0);
        }
        let bucket = &mut self.0[Self::of(value)];
        *bucket = bucket.saturating_add(1);
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The bucket of a value: its exponent and the first bits of its mantissa.
    fn of(value: f64) -> usize {
        const EXPONENT_OF_ONE: i64 = 1023;
        const MANTISSA_BITS: u32 = 52;
        if value.is_nan() || value <= 0.0 {
            return 0;
        }
        let parts = (value.to_bits() >> (MANTISSA_BITS - PARTS.ilog2())).cast_signed();
        let bucket = parts - (EXPONENT_OF_ONE + LOWEST_POWER) * PARTS;
        usize::try_from(bucket).unwrap_or(0).min(BUCKETS - 1)
    }

    /// The upper end of a bucket.
    fn end(bucket: usize) -> f64 {
        let bucket = bucket as i64;
        let (power, part) = (bucket / PARTS + LOWEST_POWER, bucket % PARTS + 1);
        2f64.powi(power as i32) * (1.0 + part as f64 / PARTS as f64)
    }

    fn quantile(&self, share: f64, window: &Window) -> f64 {
        if window.count == 0 {
            return f64::NAN;
        }
        let wanted = ((window.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.0.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        found.map_or(window.max, |bucket| Self::end(bucket).clamp(window.min, window.max))
    }
}

/// Measures times, in milliseconds as the reference does.
#[derive(Debug, Default)]
pub(crate) struct Timer(Series);

impl Timer {
    pub(crate) fn record(&self, took: Duration) {
        self.0.add(took.as_secs_f64() * 1e3);
    }

    /// Records the time since `started`.
    pub(crate) fn since(&self, started: Instant) {
        self.record(started.elapsed());
    }

    /// Records the time of a future that is awaited to its end. A future that is dropped before is not recorded.
    pub(crate) async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let done = work.await;
        self.since(started);
        done
    }

    pub(crate) fn rotate(&self) {
        self.0.rotate();
    }

    pub(crate) fn read(&self, shown: Shown) -> Measurement {
        self.0.read(shown)
    }
}

impl Measurement {
    /// A total of events that are counted elsewhere, and those of the shown interval.
    pub(crate) fn counted(total: u64, during: u64) -> Self {
        Self { count: total, sum: total as f64, window: Window::ones(during), quantiles: [f64::NAN; QUANTILES.len()] }
    }

    /// A total without intervals.
    pub(crate) fn total(sum: f64) -> Self {
        Self { count: 0, sum, window: Window::default(), quantiles: [f64::NAN; QUANTILES.len()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() <= right.abs() * 1e-9, "{left} is not {right}");
    }

    #[test]
    fn metrics_series_interval_covers_only_its_own_values() {
        let series = Series::default();
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].iter().for_each(|value| series.add(*value));
        assert_eq!(series.read(Shown::Finished).window, Window::default());
        series.rotate();
        series.add(100.0);
        let told = series.read(Shown::Finished);
        let window = told.window;
        assert_eq!((window.count, window.sum, window.min, window.max, window.mean()), (8, 40.0, 2.0, 9.0, 5.0));
        close(window.stddev(), (32.0f64 / 7.0).sqrt());
        assert_eq!((told.count, told.sum), (9, 140.0), "totals are since the start");
        series.rotate();
        assert_eq!(series.read(Shown::Finished).window.max, 100.0);
        series.rotate();
        assert_eq!(series.read(Shown::Finished).window, Window::default(), "nothing came");
    }

    #[test]
    fn counter_interval_counts_only_its_own_increments() {
        let counter = Counter::default();
        (0..3).for_each(|_| counter.add_one());
        assert_eq!(counter.read(Shown::Current).window.count, 3);
        counter.rotate();
        counter.add_one();
        let told = counter.read(Shown::Finished);
        assert_eq!((told.window.count, told.window.sum, told.window.min, told.window.max), (3, 3.0, 1.0, 1.0));
        assert_eq!((told.window.mean(), told.window.stddev(), told.sum), (1.0, 0.0, 4.0));
        counter.rotate();
        counter.rotate();
        assert_eq!(counter.read(Shown::Finished).window, Window::default());
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_high() {
        let series = Series::default();
        (1..=10_000).for_each(|n| series.add(f64::from(n) / 100.0));
        let told = series.read(Shown::Current);
        for ((share, _), found) in QUANTILES.iter().zip(told.quantiles) {
            let right = share * 100.0;
            assert!((found - right).abs() / right < 0.13, "{share}: {found} is not {right}");
            assert!(found >= right * 0.99, "a bucket's end is not below its values: {found}");
        }
        assert!(Series::default().read(Shown::Current).quantiles.iter().all(|value| value.is_nan()));
    }

    #[test]
    fn values_beyond_the_buckets_do_not_get_lost() {
        let series = Series::default();
        [0.0, -1.0, 1e-30, 1e30, f64::MAX].iter().for_each(|value| series.add(*value));
        let told = series.read(Shown::Current);
        assert_eq!((told.window.count, told.window.min, told.window.max), (5, -1.0, f64::MAX));
        assert!(told.quantiles.iter().all(|value| value.is_finite()));
    }
}
