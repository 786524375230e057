//! Reconciliation of one group: the steps in order, from its existing allocations to the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{AllocClientStatus, AllocId, Allocation, DeploymentState, EvalId, Job, Str, TaskGroup};

use super::canaries::is_canarying;
use super::names::index_of;
use super::set::{ByReschedule, Set};
use super::{NameIndex, Placement, Run, Stop, Update, reconnect, why};

/// Allocations of a group that remain after each step.
struct Sets {
    all: Set,
    untainted: Set,
    migrate: Set,
    lost: Set,
    reschedule_now: Set,
}

impl Run<'_, '_> {
    /// Reconciles a group. True when the group's part of the deployment is complete.
    pub(super) fn group(&mut self, job: &Arc<Job>, group: &TaskGroup, all: Set) -> bool {
        let name = &group.name;
        let found = all.len();
        // For batch jobs, terminal allocations of an older version do not count: the new version runs anew.
        let all = if self.input.batch { all.without(|alloc| alloc.terminal() && is_older(alloc, job)) } else { all };
        let dropped = found - all.len();
        let (mut state, existing) = self.deployment_state(group);
        let (canaries, mut all, not_needed) = self.canaries(all);

        let mut stopped_count = not_needed;
        let mut sorted = all.by_taint(self.input);
        let mut ignored = dropped + sorted.ignored.len();
        let mut goes_on = Set::default();
        if !sorted.reconnecting.is_empty() {
            let stops = self.out.stop.len();
            let (on, stopped) = self.reconnect(job, &sorted.reconnecting, &all);
            let told = self.out.stop.len() - stops;
            stopped_count += told;
            ignored += stopped.len() - told;
            for set in
                [&mut all, &mut sorted.untainted, &mut sorted.migrate, &mut sorted.lost, &mut sorted.disconnecting]
            {
                set.minus(&stopped);
            }
            goes_on = on;
        }
        // A disconnected alloc that has a replacement neither counts towards `count` nor is updated: the replacement
        // has its place until it comes back.
        let (disconnected, untainted) =
            split(sorted.untainted, |alloc| is_disconnected(alloc) && is_replaced(alloc, &all));
        ignored += disconnected.len();
        // Such an alloc is stopped when it has to migrate or is lost: it must not be replaced a second time.
        let (moved, migrate) = split(sorted.migrate, |alloc| is_replaced(alloc, &all));
        self.stop_all(&moved, None, why::NOT_NEEDED);
        let (given_up, lost) = split(sorted.lost, |alloc| alloc.server_terminal() || is_replaced(alloc, &all));
        self.stop_all(&given_up, Some(AllocClientStatus::Lost), why::LOST);
        stopped_count += moved.len() + given_up.len();

        let ByReschedule { untainted, now, mut later } =
            untainted.by_reschedule(self.input, self.deployment.as_ref(), false);
        let mut sets = Sets { all, untainted, migrate, lost, reschedule_now: now };
        sets.untainted.add(goes_on);
        if !sorted.disconnecting.is_empty() {
            self.disconnect(&sorted.disconnecting);
            // An alloc can disconnect again after a return that no evaluation saw. Its replacement of the first time
            // still has its place.
            let (again, disconnecting) = split(sorted.disconnecting, |alloc| is_replaced(alloc, &sets.all));
            ignored += again.len();
            let disconnecting = disconnecting.by_reschedule(self.input, self.deployment.as_ref(), true);
            sets.untainted.add(disconnecting.untainted);
            sets.reschedule_now.add(disconnecting.now);
            later.extend(disconnecting.later);
        }
        let lost_later = self.lost_later(group, &sets.lost);
        let waits = !lost_later.is_empty() || self.still_stopping(group, &sets.all);
        let some_later = !later.is_empty();
        self.reschedule_later(later);

        let in_use = [&sets.untainted, &sets.migrate, &sets.reschedule_now, &sets.lost];
        let in_use = in_use.into_iter().flat_map(|set| set.iter()).map(Arc::as_ref);
        let mut names = NameIndex::new(&self.input.eval.job_id, name, group.count, in_use);
        let waiting = if is_canarying(&state) { canaries.clone() } else { Set::default() };
        sets.untainted.minus(&waiting);
        let promoted = if is_canarying(&state) { Set::default() } else { canaries.clone() };
        let surplus = self.stop_surplus(group, &mut names, &mut sets, &lost_later, &promoted);
        stopped_count += surplus.len();
        sets.untainted.minus(&surplus);

        let (destructive, in_place, unchanged) = self.updates(group, &sets.untainted);
        ignored += unchanged + waiting.len();
        if !existing {
            state.desired_total += (destructive.len() + in_place) as i64;
        }
        let canary_count = group.update.as_ref().map_or(0, |update| usize::try_from(update.canary).unwrap_or(0));
        let requires_canaries = !destructive.is_empty() && canaries.len() < canary_count && !state.promoted;
        if requires_canaries {
            self.place_canaries(group, &mut state, &mut names, &canaries, &destructive);
        }
        let canarying = is_canarying(&state);
        let mut at_once = if canarying { 0 } else { self.under_provisioned(group, &sets, &destructive) };
        let place = if waits { Vec::new() } else { self.placements(group, &mut names, &sets) };
        if !existing {
            state.desired_total += place.len() as i64;
        }
        let complete = destructive.is_empty()
            && in_place == 0
            && place.is_empty()
            && sets.migrate.is_empty()
            && sets.reschedule_now.is_empty()
            && !some_later
            && !requires_canaries;

        let ready = !self.paused && !self.failed && !canarying;
        let (placed, rescheduled) = self.replacements(place, ready, &mut at_once);
        stopped_count += rescheduled;
        let replaced = if ready { destructive.len().min(at_once) } else { 0 };
        ignored += destructive.len() - replaced;
        let destructive_any = !destructive.is_empty();
        self.destroy(group, &destructive, replaced);
        self.migrate(group, &sets.migrate);

        let desired = self.out.desired.entry(name.clone()).or_default();
        desired.ignore += ignored as u64;
        desired.place += placed as u64;
        desired.stop += stopped_count as u64;
        desired.in_place_update += in_place as u64;
        desired.destructive_update += replaced as u64;
        desired.migrate += sets.migrate.len() as u64;
        self.out.names.insert(name.clone(), names);
        self.create_deployment(job, group, existing, state, &sets.all, destructive_any);
        complete && self.group_is_healthy(name)
    }

    /// Stops the lost allocations, and as many others as exceed the group's count.
    fn stop_surplus(
        &mut self,
        group: &TaskGroup,
        names: &mut NameIndex,
        sets: &mut Sets,
        followups: &BTreeMap<AllocId, EvalId>,
        promoted: &Set,
    ) -> Set {
        let mut stopped = Set::default();
        for alloc in sets.lost.iter() {
            let stop = Stop {
                alloc: alloc.clone(),
                description: why::LOST,
                client_status: Some(AllocClientStatus::Lost),
                followup: followups.get(&alloc.id).copied(),
            };
            self.out.stop.push(stop);
            stopped.insert(alloc.clone());
        }
        let known = sets.untainted.iter().filter(|alloc| alloc.client_status != AllocClientStatus::Unknown).count();
        let wanted = usize::try_from(group.count).unwrap_or(0);
        let mut surplus = (known + sets.migrate.len()).saturating_sub(wanted);
        if surplus == 0 {
            return stopped;
        }
        // First those that share a name with a promoted canary: the canary replaces them.
        let taken: BTreeSet<&Str> = promoted.iter().map(|alloc| &alloc.name).collect();
        for alloc in sets.untainted.in_name_order() {
            if surplus == 0 {
                return stopped;
            }
            if taken.contains(&alloc.name) && !promoted.contains(alloc.id) && !alloc.terminal() {
                self.stop(&alloc, None, why::NOT_NEEDED);
                sets.untainted.remove(alloc.id);
                names.release(index_of(&alloc));
                stopped.insert(alloc);
                surplus -= 1;
            }
        }
        // Then those that have to migrate anyway, from the highest number in their names down.
        let migrating = sets.migrate.iter().map(Arc::as_ref);
        let highest = NameIndex::new(&self.input.eval.job_id, &group.name, group.count, migrating).highest(surplus);
        for alloc in sets.migrate.in_name_order().into_iter().filter(|alloc| highest.contains(&alloc.name)) {
            if surplus == 0 {
                return stopped;
            }
            self.stop(&alloc, None, why::NOT_NEEDED);
            sets.migrate.remove(alloc.id);
            names.release(index_of(&alloc));
            stopped.insert(alloc);
            surplus -= 1;
        }
        for alloc in namesakes(&sets.untainted) {
            if surplus == 0 {
                return stopped;
            }
            self.stop(&alloc, None, why::NOT_NEEDED);
            sets.untainted.remove(alloc.id);
            names.release(index_of(&alloc));
            stopped.insert(alloc);
            surplus -= 1;
        }
        let highest = names.highest(surplus);
        let live: Vec<Arc<Allocation>> = sets.untainted.iter().filter(|alloc| !alloc.terminal()).cloned().collect();
        let (named, others): (Vec<_>, Vec<_>) = live.into_iter().partition(|alloc| highest.contains(&alloc.name));
        for (alloc, by_name) in
            named.into_iter().map(|alloc| (alloc, true)).chain(others.into_iter().map(|alloc| (alloc, false)))
        {
            if surplus == 0 {
                break;
            }
            self.stop(&alloc, None, why::NOT_NEEDED);
            if !by_name {
                names.release(index_of(&alloc));
            }
            stopped.insert(alloc);
            surplus -= 1;
        }
        stopped
    }

    /// Decides the update of each allocation. Returns (destructive updates, number of in-place updates, number
    /// ignored).
    fn updates(&mut self, group: &TaskGroup, untainted: &Set) -> (Set, usize, usize) {
        let (mut destructive, mut in_place, mut ignored) = (Set::default(), 0, 0);
        for alloc in untainted.iter() {
            // A disconnect update of the same allocation is the base of the in-place update, because a plan writes each
            // row once.
            let update = self.out.disconnect_updates.get(&alloc.id).map(|row| Arc::new(row.clone()));
            match (self.update_of)(update.as_ref().unwrap_or(alloc), group) {
                Update::Ignore => ignored += 1,
                Update::Destructive => destructive.insert(alloc.clone()),
                Update::InPlace(changed) => {
                    in_place += 1;
                    self.out.disconnect_updates.remove(&alloc.id);
                    self.out.in_place.push(*changed);
                }
            }
        }
        (destructive, in_place, ignored)
    }

    /// Placements that the group lacks: replacements of failed allocations, then of lost ones, then new ones.
    fn placements(&mut self, group: &TaskGroup, names: &mut NameIndex, sets: &Sets) -> Vec<Placement> {
        let wanted = usize::try_from(group.count).unwrap_or(0);
        let mut existing = sets.untainted.len() + sets.migrate.len() + sets.reschedule_now.len();
        let mut place: Vec<Placement> = Vec::new();
        for alloc in sets.reschedule_now.in_name_order() {
            // Disconnected allocations go on until their limit; failed ones are stopped when their replacement has a
            // node.
            let waits = self.out.disconnect_updates.contains_key(&alloc.id)
                || alloc.client_status == AllocClientStatus::Unknown;
            let stop_previous = if waits { None } else { Some(why::RESCHEDULED) };
            place.push(Placement { rescheduling: true, stop_previous, ..after(group, &alloc) });
        }
        for alloc in sets.lost.in_name_order() {
            if existing >= wanted {
                break;
            }
            existing += 1;
            place.push(Placement { lost: true, ..after(group, &alloc) });
        }
        for name in names.next(wanted.saturating_sub(existing)) {
            place.push(Placement {
                group: group.name.clone(),
                name,
                previous: None,
                rescheduling: false,
                lost: false,
                canary: false,
                stop_previous: None,
            });
        }
        place
    }

    /// Adds the placements that are allowed now. Returns (number of placements, number of those that stop a failed
    /// allocation).
    fn replacements(&mut self, place: Vec<Placement>, ready: bool, at_once: &mut usize) -> (usize, usize) {
        let failed_deployment =
            if self.failed { self.deployment.as_ref().map(|deployment| deployment.id) } else { None };
        let mut allowed = place;
        if ready {
            *at_once -= allowed.len().min(*at_once);
        } else {
            // Lost and rescheduled allocations are replaced even so, except those that failed in the failed deployment.
            allowed.retain(|placement| {
                let of_failed = failed_deployment.is_some()
                    && placement.previous.as_ref().is_some_and(|previous| previous.deployment_id == failed_deployment);
                placement.lost || (placement.rescheduling && !of_failed)
            });
        }
        let counts = (allowed.len(), allowed.iter().filter(|placement| placement.stop_previous.is_some()).count());
        self.out.place.extend(allowed);
        counts
    }

    fn destroy(&mut self, group: &TaskGroup, destructive: &Set, most: usize) {
        for alloc in destructive.in_name_order().into_iter().take(most) {
            let placement = Placement { stop_previous: Some(why::UPDATING), canary: false, ..after(group, &alloc) };
            self.out.destructive.push(placement);
        }
    }

    fn migrate(&mut self, group: &TaskGroup, migrate: &Set) {
        for alloc in migrate.in_name_order() {
            self.stop(&alloc, None, why::MIGRATING);
            self.out.place.push(after(group, &alloc));
        }
    }

    /// Number of destructive updates allowed now: `max_parallel` minus the allocations of the deployment whose health
    /// is undecided.
    fn under_provisioned(&self, group: &TaskGroup, sets: &Sets, destructive: &Set) -> usize {
        let count = usize::try_from(group.count).unwrap_or(0);
        let most = group.update.as_ref().map_or(0, |update| usize::try_from(update.max_parallel).unwrap_or(0));
        if most == 0 || destructive.len() + sets.migrate.len() == 0 {
            return count;
        }
        let Some(deployment) = &self.deployment else { return most };
        if self.paused || self.failed {
            return 0;
        }
        let mut left = most;
        for alloc in sets.untainted.iter().filter(|alloc| alloc.deployment_id == Some(deployment.id)) {
            match alloc.health() {
                Some(true) => {}
                Some(false) => return 0,
                None => left = left.saturating_sub(1),
            }
        }
        left
    }

    fn deployment_state(&self, group: &TaskGroup) -> (DeploymentState, bool) {
        let known = self.deployment.as_ref().and_then(|deployment| deployment.task_groups.as_ref()?.get(&group.name));
        if let Some(state) = known {
            return (state.clone(), true);
        }
        let mut state = DeploymentState::default();
        if let Some(update) = group.update.as_ref().filter(|update| update.max_parallel != 0) {
            state.auto_revert = update.auto_revert;
            state.auto_promote = update.auto_promote;
            state.progress_deadline = update.progress_deadline;
        }
        (state, false)
    }
}

fn after(group: &TaskGroup, previous: &Arc<Allocation>) -> Placement {
    Placement {
        group: group.name.clone(),
        name: previous.name.clone(),
        previous: Some(previous.clone()),
        rescheduling: false,
        lost: false,
        canary: previous.is_canary(),
        stop_previous: None,
    }
}

/// Allocations whose number in the name another one has too, so that one per number remains: a running one, or else
/// the oldest.
fn namesakes(set: &Set) -> Vec<Arc<Allocation>> {
    let mut allocs: Vec<Arc<Allocation>> = set.iter().filter(|alloc| !alloc.terminal()).cloned().collect();
    allocs.sort_by_key(|alloc| {
        (index_of(alloc), alloc.client_status != AllocClientStatus::Running, alloc.create_index, alloc.id)
    });
    let mut last = None;
    allocs.retain(|alloc| last.replace(index_of(alloc)) == Some(index_of(alloc)));
    allocs
}

/// Splits a set: (allocations for which `holds` is true, the others).
fn split(set: Set, holds: impl Fn(&Allocation) -> bool) -> (Set, Set) {
    (set.clone().without(|alloc| !holds(alloc)), set.without(|alloc| holds(alloc)))
}

fn is_disconnected(alloc: &Allocation) -> bool {
    alloc.client_status == AllocClientStatus::Unknown
}

/// Whether a replacement of the allocation exists that the servers still want.
fn is_replaced(alloc: &Allocation, all: &Set) -> bool {
    alloc.next_allocation.is_some() && !reconnect::replacements(alloc, all).is_empty()
}

fn is_older(alloc: &Allocation, job: &Job) -> bool {
    alloc.job.as_ref().is_some_and(|own| own.version < job.version || own.create_index < job.create_index)
}
