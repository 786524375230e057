//! A queue from a thread that must not wait to one that may. Entries without events only advance the queue's index
//! and wake no thread.
//!
//! The queue has no bound. The log feeds it, and writes and syncs more bytes to the same disk than the queue's reader
//! does.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use songline_commands::Kind;
use songline_projections::Change;

use super::batch::Batch;

/// One item of a queue.
pub(super) enum Item {
    /// An entry whose changes are to be encoded.
    Entry {
        /// Index of the entry.
        index: u64,
        /// Command kind of the entry.
        kind: Kind,
        /// Changes of the entry.
        changes: Arc<Vec<Change>>,
    },
    /// Events to be written to the history.
    Batch(Arc<Batch>),
    /// A reset: the history begins anew after this index.
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
    /// The reader has taken items and has not called [`Inbox::done`] yet.
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

    /// Passes an entry without events.
    pub(super) fn pass(&self, index: u64) {
        let mut queue = self.queue.lock();
        queue.through = queue.through.max(index);
    }

    /// Queues an entry with events.
    pub(super) fn push(&self, index: u64, item: Item) {
        let mut queue = self.queue.lock();
        queue.through = queue.through.max(index);
        queue.items.push(item);
        drop(queue);
        self.filled.notify_one();
    }

    /// Takes all queued items; `None` when the queue is closed and empty. Waits at most `wait_max` for an item, then
    /// returns an empty list.
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

    /// Called by the reader when it has processed the items that it took last.
    pub(super) fn done(&self) {
        self.queue.lock().busy = false;
    }

    /// Index of the newest entry; `None` while items are queued or being processed.
    pub(super) fn settled(&self) -> Option<u64> {
        let queue = self.queue.lock();
        (queue.items.is_empty() && !queue.busy).then_some(queue.through)
    }

    pub(super) fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_all();
    }
}
