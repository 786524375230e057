//! A queue between one thread that must not wait and one that may: entries without events only move its mark and wake nobody.
//!
//! The queue has no bound. It is fed by the log, which writes and syncs more bytes to the same disk than the reader of the queue does.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use songline_commands::Kind;
use songline_projections::Change;

use super::batch::Batch;

/// One item of a queue.
pub(super) enum Item {
    /// Encode what this entry changed.
    Entry {
        /// Its index.
        index: u64,
        /// Its kind.
        kind: Kind,
        /// What it changed.
        changes: Arc<Vec<Change>>,
    },
    /// Write these events to the history.
    Batch(Arc<Batch>),
    /// Begin the history anew after this index.
    Reset {
        /// Index of the entry that replaced the state.
        index: u64,
    },
}

#[derive(Default)]
struct Queue {
    items: Vec<Item>,
    /// Index of the newest entry, with or without events.
    through: u64,
    /// The reader has taken items and is not done with them.
    busy: bool,
    closed: bool,
}

pub(super) struct Inbox {
    queue: Mutex<Queue>,
    filled: Condvar,
}

impl Inbox {
    pub(super) fn new(through: u64) -> Self {
        Self { queue: Mutex::new(Queue { through, ..Queue::default() }), filled: Condvar::new() }
    }

    /// An entry without events.
    pub(super) fn pass(&self, index: u64) {
        let mut queue = self.queue.lock();
        queue.through = queue.through.max(index);
    }

    /// An entry with events.
    pub(super) fn push(&self, index: u64, item: Item) {
        let mut queue = self.queue.lock();
        queue.through = queue.through.max(index);
        queue.items.push(item);
        drop(queue);
        self.filled.notify_one();
    }

    /// All queued items; `None` when the queue is closed and empty. Waits for an item at most `wait_max`, then answers no items.
    pub(super) fn take(&self, wait_max: Duration) -> Option<Vec<Item>> {
        let mut queue = self.queue.lock();
        while queue.items.is_empty() {
            if queue.closed {
                return None;
            }
            if self.filled.wait_for(&mut queue, wait_max).timed_out() {
                break;
            }
        }
        queue.busy = true;
        Some(std::mem::take(&mut queue.items))
    }

    /// The reader is done with what it took last.
    pub(super) fn done(&self) {
        self.queue.lock().busy = false;
    }

    /// Index of the newest entry, when nothing before it is still to be done.
    pub(super) fn settled(&self) -> Option<u64> {
        let queue = self.queue.lock();
        (queue.items.is_empty() && !queue.busy).then_some(queue.through)
    }

    pub(super) fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_all();
    }
}
