//! Reports of an allocation to the servers, and numbers for the agent's metrics: what happens to tasks, and allocations
//! that wait for the end of an earlier one or take its data over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use songline_rpc::AllocReport;

use super::{News, Shell};
use crate::core::counted;

/// Numbers of allocations.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    blocked: AtomicU64,
    migrating: AtomicU64,
}

impl Shell {
    /// Publishes the newest copy, whether or not it changed anything: its index shows that it need not be fetched
    /// again.
    pub(super) fn show_alloc(&self) {
        let alloc = self.machine.alloc();
        self.show.send_if_modified(|view| {
            let newer = !Arc::ptr_eq(&view.alloc, alloc);
            view.alloc = Arc::clone(alloc);
            newer
        });
    }

    /// Tells the servers and the readers of the view what the tasks do.
    pub(super) fn report(&self) {
        let update = self.machine.update();
        self.count(&update);
        self.show_alloc();
        self.show.send_modify(|view| view.update = update);
        let _ = self.shared.news.send(News::Update(self.id()));
    }

    /// Counts what has happened to the tasks since the last report.
    fn count(&self, update: &AllocReport) {
        let before = self.show.borrow();
        for (task, state) in update.tasks() {
            let counted = counted(before.update.task(task), state);
            if !counted.is_empty() {
                self.shared.counts.add(self.machine.alloc(), task, &counted, self.shared.clock.now());
            }
        }
    }
}

/// One allocation in a number. Dropping it takes the allocation out, also when its set-up is aborted.
pub(super) struct Entry<'a>(&'a AtomicU64);

impl Waits {
    /// Allocations that wait for the end of an earlier one.
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Allocations that take the data of an earlier one over.
    pub fn migrating(&self) -> u64 {
        self.migrating.load(Ordering::Relaxed)
    }

    pub(super) fn block(&self) -> Entry<'_> {
        Entry::new(&self.blocked)
    }

    pub(super) fn migrate(&self) -> Entry<'_> {
        Entry::new(&self.migrating)
    }
}

impl<'a> Entry<'a> {
    fn new(number: &'a AtomicU64) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
