//! Wall time of one machine: virtual, and wrong by as much as the machine's clock is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;

/// The wall time at which every simulation begins, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_800_000_000_000;

/// A clock. Clones share it.
#[derive(Debug, Clone)]
pub struct Clock {
    started: Instant,
    skew_ms: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that is wrong by `skew_ms` milliseconds.
    pub fn new(started: Instant, skew_ms: i64) -> Self {
        Self { started, skew_ms: Arc::new(AtomicI64::new(skew_ms)) }
    }

    /// Somebody sets it.
    pub fn set_skew(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        let passed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        u64::try_from(BEGIN_MS + passed + self.skew_ms.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
