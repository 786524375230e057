//! Collects terminal allocations, the oldest first, when the disk fills, its inodes run out or there are too many.

use std::sync::Arc;

use songline_model::{AllocId, Allocation, Time};
use tokio::sync::Notify;

use crate::core::Input;
use crate::loops::Runners;
use crate::runner::{Runner, Shared};
use crate::stats::disk_of;

/// Collects the terminal allocations of a node.
pub(crate) struct Collector {
    shared: Arc<Shared>,
    runners: Runners<Runner>,
    wake: Notify,
}

impl Collector {
    pub fn new(shared: Arc<Shared>, runners: Runners<Runner>) -> Arc<Self> {
        Arc::new(Self { shared, runners, wake: Notify::new() })
    }

    /// Looks now whether there is anything to collect: an allocation has ended, or there are others.
    pub fn look(&self) {
        self.wake.notify_one();
    }

    /// Looks at intervals, and whenever it is told.
    pub async fn run(self: Arc<Self>) {
        let interval = self.shared.config.gc_interval.to_std();
        loop {
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(interval) => {}
            }
            self.collect_surplus().await;
        }
    }

    async fn collect_surplus(&self) {
        while let Some((reason, surplus)) = self.surplus() {
            let mut ended = self.ended();
            if ended.is_empty() {
                tracing::warn!(reason, "nothing left to collect");
                return;
            }
            ended.truncate(surplus.min(self.shared.config.gc_parallel_destroys).max(1));
            for (id, runner) in &ended {
                tracing::info!(alloc = %id, reason, "collecting an allocation");
                runner.tell(Input::Destroy);
            }
            for (_, runner) in &ended {
                runner.wait_for(|view| view.destroyed).await;
            }
        }
    }

    /// Reason to collect, and the number of allocations to collect before it is looked at again.
    fn surplus(&self) -> Option<(String, usize)> {
        let config = &self.shared.config;
        if self.ended().is_empty() {
            return None;
        }
        let count = self.count();
        if count > config.gc_allocs_max {
            let reason = format!("number of allocations ({count}) is over the limit ({})", config.gc_allocs_max);
            return Some((reason, count - config.gc_allocs_max));
        }
        let disk = disk_of(&config.alloc_dir())?;
        let usages = [
            ("disk", disk.used_percent, config.gc_disk_usage_percent),
            ("inode", disk.inodes_used_percent, config.gc_inode_usage_percent),
        ];
        let (what, used, most) = usages.into_iter().find(|(_, used, most)| used > most)?;
        Some((format!("{what} usage of {used:.0} is over gc threshold of {most:.0}"), 1))
    }

    /// Number of allocations whose directory is not removed.
    fn count(&self) -> usize {
        self.runners.lock().values().filter(|runner| !runner.view().destroyed).count()
    }

    /// Makes room for new allocations: for their number, then for the disk that they ask for. The bounds are soft, so
    /// nothing is waited for.
    pub fn make_room(&self, coming: &[Arc<Allocation>]) {
        let config = &self.shared.config;
        let wanted_mb: i64 = coming.iter().map(|alloc| disk_mb(alloc)).sum();
        let surplus = (self.count() + coming.len()).saturating_sub(config.gc_allocs_max);
        let mut ended = self.ended().into_iter();
        ended.by_ref().take(surplus).for_each(|(_, runner)| runner.tell(Input::Destroy));
        let available = disk_of(&config.alloc_dir()).map_or(i64::MAX, |disk| (disk.available >> 20).cast_signed());
        let mut lacking = wanted_mb.saturating_sub(available.saturating_sub(config.reserved.disk.disk_mb));
        for (_, runner) in ended {
            if lacking <= 0 {
                return;
            }
            lacking = lacking.saturating_sub(disk_mb(&runner.view().alloc));
            runner.tell(Input::Destroy);
        }
    }

    /// Collects one allocation. Returns whether it existed and was terminal.
    pub async fn collect_one(&self, id: &AllocId) -> bool {
        let Some((_, runner)) = self.ended().into_iter().find(|(ended, _)| ended == id) else { return false };
        runner.tell(Input::Destroy);
        runner.wait_for(|view| view.destroyed).await;
        true
    }

    /// Collects all terminal allocations.
    pub fn collect_all(&self) {
        self.ended().into_iter().for_each(|(_, runner)| runner.tell(Input::Destroy));
    }

    /// Terminal allocations that still have a directory, oldest first.
    fn ended(&self) -> Vec<(AllocId, Arc<Runner>)> {
        let mut ended: Vec<(Time, AllocId, Arc<Runner>)> = self
            .runners
            .lock()
            .iter()
            .filter_map(|(id, runner)| {
                let view = runner.view();
                Some((view.done_at.filter(|_| !view.destroyed)?, *id, Arc::clone(runner)))
            })
            .collect();
        ended.sort_by_key(|(at, id, _)| (*at, *id));
        ended.into_iter().map(|(_, id, runner)| (id, runner)).collect()
    }
}

/// Disk that an allocation asks for, in MB.
fn disk_mb(alloc: &Allocation) -> i64 {
    alloc.allocated_resources.as_ref().map_or(0, |resources| resources.shared.disk_mb)
}
