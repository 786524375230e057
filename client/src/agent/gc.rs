//! Collects terminal allocations, the oldest first, when the disk fills or there are too many.

use std::sync::Arc;

use songline_model::{AllocId, Time};
use songline_rpc::Servers;

use super::Inner;
use crate::core::Input;
use crate::runner::Runner;
use crate::stats::disk_of;

impl<S: Servers> Inner<S> {
    /// Checks at intervals, and whenever an allocation has ended.
    pub(super) async fn collect_garbage(self: Arc<Self>) {
        let interval = self.shared.config.gc_interval.to_std();
        loop {
            tokio::select! {
                () = self.collect.notified() => {}
                () = tokio::time::sleep(interval) => {}
            }
            self.collect_surplus().await;
        }
    }

    async fn collect_surplus(&self) {
        while let Some(reason) = self.surplus() {
            let Some((id, runner)) = self.ended().into_iter().next() else {
                tracing::warn!(reason, "nothing left to collect");
                return;
            };
            tracing::info!(alloc = %id, reason, "collecting an allocation");
            runner.tell(Input::Destroy);
            runner.wait_for(|view| view.destroyed).await;
        }
    }

    fn surplus(&self) -> Option<String> {
        let config = &self.shared.config;
        let count = self.all().values().filter(|runner| !runner.view().destroyed).count();
        if count > config.gc_allocs_max && !self.ended().is_empty() {
            return Some(format!("number of allocations ({count}) is over the limit ({})", config.gc_allocs_max));
        }
        let disk = disk_of(&config.alloc_dir())?;
        let over = |used: f64| used > config.gc_disk_usage_percent && !self.ended().is_empty();
        if over(disk.used_percent) {
            return Some(format!(
                "disk usage of {:.0} is over gc threshold of {:.0}",
                disk.used_percent, config.gc_disk_usage_percent
            ));
        }
        None
    }

    /// Makes room for new allocations. The bound is soft, so nothing is waited for.
    pub(super) fn make_room(&self, coming: usize) {
        let count = self.all().values().filter(|runner| !runner.view().destroyed).count();
        let surplus = (count + coming).saturating_sub(self.shared.config.gc_allocs_max);
        for (_, runner) in self.ended().into_iter().take(surplus) {
            runner.tell(Input::Destroy);
        }
    }

    /// Collects one allocation. Returns whether it existed and was terminal.
    pub(crate) async fn collect_one(&self, id: &AllocId) -> bool {
        let Some((_, runner)) = self.ended().into_iter().find(|(ended, _)| ended == id) else { return false };
        runner.tell(Input::Destroy);
        runner.wait_for(|view| view.destroyed).await;
        true
    }

    /// Collects all terminal allocations.
    pub(crate) fn collect_all(&self) {
        self.ended().into_iter().for_each(|(_, runner)| runner.tell(Input::Destroy));
    }

    /// Terminal allocations that still have a directory, oldest first.
    fn ended(&self) -> Vec<(AllocId, Arc<Runner>)> {
        let mut ended: Vec<(Time, AllocId, Arc<Runner>)> = self
            .all()
            .into_iter()
            .filter_map(|(id, runner)| {
                let view = runner.view();
                Some((view.done_at.filter(|_| !view.destroyed)?, id, runner))
            })
            .collect();
        ended.sort_by_key(|(at, id, _)| (*at, *id));
        ended.into_iter().map(|(_, id, runner)| (id, runner)).collect()
    }
}
