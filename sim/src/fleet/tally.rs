//! Counts of a fleet, for lines of progress and for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Most different errors that are kept until they are taken.
const ERRORS_MAX: usize = 64;

/// Counts of a fleet at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Nodes that are registered and were accepted as ready.
    pub ready: i64,
    /// Allocations that wait for their start.
    pub pending: i64,
    /// Running allocations, those that are being stopped included.
    pub running: i64,
    /// Allocations that ended as complete.
    pub completed: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Updates of allocations that the servers acknowledged.
    pub updates: u64,
    /// Calls that carried them.
    pub update_calls: u64,
    /// Acknowledged heartbeats.
    pub heartbeats: u64,
    /// Heartbeats whose answer said that the servers had not counted the node as ready.
    pub missed: u64,
    /// Registrations, also of nodes that returned.
    pub registered: u64,
    /// Failed calls.
    pub errors: u64,
}

/// Counters that the nodes of a fleet share.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) ready: AtomicI64,
    pub(super) pending: AtomicI64,
    pub(super) running: AtomicI64,
    pub(super) completed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) updates: AtomicU64,
    pub(super) update_calls: AtomicU64,
    pub(super) heartbeats: AtomicU64,
    pub(super) missed: AtomicU64,
    pub(super) registered: AtomicU64,
    errors: AtomicU64,
    texts: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        let (signed, plain) = (|n: &AtomicI64| n.load(Ordering::Relaxed), |n: &AtomicU64| n.load(Ordering::Relaxed));
        Counts {
            ready: signed(&self.ready),
            pending: signed(&self.pending),
            running: signed(&self.running),
            completed: plain(&self.completed),
            failed: plain(&self.failed),
            updates: plain(&self.updates),
            update_calls: plain(&self.update_calls),
            heartbeats: plain(&self.heartbeats),
            missed: plain(&self.missed),
            registered: plain(&self.registered),
            errors: plain(&self.errors),
        }
    }

    /// Counts an error. Texts beyond a bound are counted without being kept.
    pub(super) fn error(&self, text: String) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut texts = self.texts.lock();
        if texts.len() < ERRORS_MAX || texts.contains_key(&text) {
            *texts.entry(text).or_default() += 1;
        }
    }

    /// The errors since the last time this was asked, with how often each came.
    pub(super) fn take_errors(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.texts.lock())
    }

    /// The errors that were not taken yet.
    pub(super) fn errors(&self) -> BTreeMap<String, u64> {
        self.texts.lock().clone()
    }
}
