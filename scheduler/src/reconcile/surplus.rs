//! Allocations that a group has too many of: which ones stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocClientStatus, Allocation, Str};

use super::canaries::is_canarying;
use super::group::{Work, is_older};
use super::names::index_of;
use super::set::Set;
use super::{NameIndex, Run, Stop, why};

impl Run<'_, '_> {
    /// Stops the lost allocations, and as many others as exceed the group's count. Canaries that wait for their
    /// promotion do not count.
    pub(super) fn stop_surplus(&mut self, work: &mut Work<'_>, names: &mut NameIndex) {
        if is_canarying(&work.state) {
            work.untainted.minus(&work.canaries);
            work.desired.ignore += work.canaries.len() as u64;
        }
        self.stop_lost(work);
        let known = work.untainted.iter().filter(|alloc| is_known(alloc)).count();
        let mut surplus = above_count(work, known + work.migrate.len());
        for alloc in replaced_by_canaries(work) {
            if surplus > 0 || !is_older(&alloc, work.job) {
                names.release(index_of(&alloc));
                self.stop_one(work, &alloc);
                surplus = surplus.saturating_sub(1);
            }
        }
        for candidates in [migrating, namesakes] {
            for alloc in candidates(work, surplus).into_iter().take(surplus) {
                names.release(index_of(&alloc));
                self.stop_one(work, &alloc);
                surplus -= 1;
            }
        }
        let highest = names.highest(surplus);
        let live: Vec<Arc<Allocation>> = live(&work.untainted).cloned().collect();
        let (named, others): (Vec<_>, Vec<_>) = live.into_iter().partition(|alloc| highest.contains(&alloc.name));
        let left = surplus.saturating_sub(named.len());
        for alloc in named.into_iter().take(surplus) {
            self.stop_one(work, &alloc);
        }
        for alloc in others.into_iter().take(left) {
            names.release(index_of(&alloc));
            self.stop_one(work, &alloc);
        }
    }

    /// Stops failed allocations above the group's count before any live one, the highest numbers first. Nothing replaces
    /// them, now or later. Otherwise an update would replace them all, and its deployment would wait for more healthy
    /// allocations than the group has.
    pub(super) fn stop_failed_surplus(&mut self, work: &mut Work<'_>) {
        let canarying = is_canarying(&work.state);
        let counts = |alloc: &&Arc<Allocation>| is_known(alloc) && !(canarying && work.canaries.contains(alloc.id));
        let allocs = || work.untainted.iter().chain(work.reschedule_now.iter()).filter(counts);
        let is_failed = |alloc: &&Arc<Allocation>| alloc.client_status == AllocClientStatus::Failed;
        let mut failed: Vec<Arc<Allocation>> = allocs().filter(is_failed).cloned().collect();
        if failed.is_empty() {
            return;
        }
        let surplus = above_count(work, allocs().count() + work.migrate.len());
        failed.sort_by_key(|alloc| std::cmp::Reverse(index_of(alloc)));
        for alloc in failed.into_iter().take(surplus) {
            self.stop_one(work, &alloc);
            work.reschedule_now.remove(alloc.id);
            work.reschedule_later.retain(|later| later.alloc.id != alloc.id);
        }
    }

    /// Leaves disconnected allocations as they are whose replacements would be more than the group's count, the highest
    /// numbers first. When their nodes come back, they are stopped. Otherwise a deployment would wait for more healthy
    /// allocations than the group has.
    pub(super) fn leave_disconnected_surplus(&self, work: &mut Work<'_>) {
        // Canaries that wait for their promotion come on top, and the untainted ones are left out by now.
        let canarying = is_canarying(&work.state);
        let counts = |alloc: &&Arc<Allocation>| !(canarying && alloc.is_canary());
        let mut allocs: Vec<Arc<Allocation>> = work.reschedule_now.iter().filter(counts).cloned().collect();
        let surplus = above_count(work, work.untainted.len() + work.migrate.len() + allocs.len());
        allocs.retain(|alloc| !is_known(alloc) || self.out.disconnect_updates.contains_key(&alloc.id));
        allocs.sort_by_key(|alloc| std::cmp::Reverse(index_of(alloc)));
        for alloc in allocs.into_iter().take(surplus) {
            work.reschedule_now.remove(alloc.id);
            work.desired.ignore += 1;
        }
    }

    fn stop_lost(&mut self, work: &mut Work<'_>) {
        for alloc in work.lost.iter() {
            self.out.stop.push(Stop {
                alloc: alloc.clone(),
                description: why::LOST,
                client_status: Some(AllocClientStatus::Lost),
                followup: work.lost_later.get(&alloc.id).copied(),
            });
        }
        work.desired.stop += work.lost.len() as u64;
        work.untainted.minus(&work.lost);
    }

    fn stop_one(&mut self, work: &mut Work<'_>, alloc: &Arc<Allocation>) {
        self.stop(alloc, None, why::NOT_NEEDED);
        work.untainted.remove(alloc.id);
        work.migrate.remove(alloc.id);
        work.desired.stop += 1;
    }
}

/// Whether an allocation counts towards the group's count. The nodes of unknown ones may have lost them.
fn is_known(alloc: &Allocation) -> bool {
    alloc.client_status != AllocClientStatus::Unknown
}

/// Number of these allocations that are more than the group's count.
fn above_count(work: &Work<'_>, allocs: usize) -> usize {
    allocs.saturating_sub(usize::try_from(work.group.count).unwrap_or(0))
}

fn live(set: &Set) -> impl Iterator<Item = &Arc<Allocation>> {
    set.iter().filter(|alloc| !alloc.terminal())
}

/// First, allocations that share their name with a promoted canary, which replaces them. Those of the current version
/// stop also when the group has no more allocations than its count, because another one ended while the canaries waited
/// for their promotion: otherwise two allocations have one name, and another name is missing. Those of older versions are
/// updated, and get another name then. Replacements of the canary itself are younger, and stay.
fn replaced_by_canaries(work: &Work<'_>) -> Vec<Arc<Allocation>> {
    if is_canarying(&work.state) {
        return Vec::new();
    }
    let canaries = live(&work.canaries).filter(|alloc| is_known(alloc));
    let canaries: BTreeMap<&Str, u64> = canaries.map(|alloc| (&alloc.name, alloc.create_index)).collect();
    let precedes = |alloc: &Allocation| canaries.get(&alloc.name).is_some_and(|canary| alloc.create_index < *canary);
    let mut allocs = work.untainted.in_name_order();
    allocs.retain(|alloc| precedes(alloc) && !work.canaries.contains(alloc.id) && !alloc.terminal());
    allocs
}

/// Then those that have to migrate anyway, with the highest numbers in their names.
fn migrating(work: &Work<'_>, surplus: usize) -> Vec<Arc<Allocation>> {
    let group = work.group;
    let allocs = work.migrate.iter().map(Arc::as_ref);
    let highest = NameIndex::new(&work.job.id, &group.name, group.count, allocs).highest(surplus);
    let mut allocs = work.migrate.in_name_order();
    allocs.retain(|alloc| highest.contains(&alloc.name));
    allocs
}

/// Then those whose number in the name another one has too, so that one per number remains: a running one, or else
/// the oldest.
fn namesakes(work: &Work<'_>, _surplus: usize) -> Vec<Arc<Allocation>> {
    let mut allocs: Vec<Arc<Allocation>> = live(&work.untainted).cloned().collect();
    allocs.sort_by_key(|alloc| {
        (index_of(alloc), alloc.client_status != AllocClientStatus::Running, alloc.create_index, alloc.id)
    });
    let mut last = None;
    allocs.retain(|alloc| last.replace(index_of(alloc)) == Some(index_of(alloc)));
    allocs
}
