//! Reconciliation of one group: the steps in order, from its existing allocations to the changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocId, Allocation, DeploymentState, DesiredUpdates, EvalId, Job, Str, TaskGroup,
};

use super::canaries::{is_canarying, waits_for_promotion};
use super::set::{ByReschedule, Later, Set};
use super::{NameIndex, Placement, Run, Update, reconnect, why};

/// A group during its reconciliation. Each step moves allocations out of the sets that it decides about.
pub(super) struct Work<'g> {
    pub job: &'g Arc<Job>,
    pub group: &'g TaskGroup,
    /// The group's part of the deployment, and whether the current deployment has it already.
    pub state: DeploymentState,
    pub existing: bool,
    /// All allocations that count for this version of the job.
    pub all: Set,
    /// The canaries of the current deployment, promoted or not.
    pub canaries: Set,
    pub untainted: Set,
    pub migrate: Set,
    pub lost: Set,
    pub reconnecting: Set,
    pub disconnecting: Set,
    pub reschedule_now: Set,
    /// Follow-up evaluations of lost allocations that their nodes may still have to stop.
    pub lost_later: BTreeMap<AllocId, EvalId>,
    pub reschedule_later: Vec<Later>,
    /// Whether nothing is placed in this evaluation, because an allocation to replace may still run.
    waits: bool,
    pub desired: DesiredUpdates,
}

/// Allocations of a group that the current job changes.
struct Changed {
    destructive: Set,
    in_place: usize,
}

impl Run<'_, '_> {
    /// Reconciles a group. True when the group's part of the deployment is complete.
    pub(super) fn group(&mut self, job: &Arc<Job>, group: &TaskGroup, all: Set) -> bool {
        let mut work = self.sort(job, group, all);
        self.take_back_reconnected(&mut work);
        self.give_up_replaced(&mut work);
        self.find_rescheduled(&mut work);
        self.stop_failed_surplus(&mut work);
        self.create_followups(&mut work);
        let mut names = work.names_in_use(&self.input.eval.job_id);
        self.stop_surplus(&mut work, &mut names);
        self.leave_disconnected_surplus(&mut work);
        let changed = self.find_changes(&mut work);
        let lacks_canaries = self.place_canaries(&mut work, &mut names, &changed.destructive);
        let place = self.placements(&mut work, &mut names);
        let is_settled = changed.destructive.is_empty()
            && changed.in_place == 0
            && place.is_empty()
            && work.migrate.is_empty()
            && work.reschedule_now.is_empty()
            && work.reschedule_later.is_empty()
            && !lacks_canaries;
        self.change(&mut work, place, &changed.destructive);
        self.migrate(&mut work);
        self.out.names.insert(group.name.clone(), names);
        self.out.desired.insert(group.name.clone(), work.desired);
        self.create_deployment(job, group, work.existing, work.state, &work.all, !changed.destructive.is_empty());
        is_settled && self.group_is_healthy(&group.name, &changed.destructive)
    }

    /// Sorts the group's allocations by the state of their nodes, and stops canaries that are not needed any more.
    fn sort<'g>(&mut self, job: &'g Arc<Job>, group: &'g TaskGroup, all: Set) -> Work<'g> {
        let found = all.len();
        // For batch jobs, terminal allocations of an older version do not count: the new version runs anew.
        let all = if self.input.batch { all.without(|alloc| alloc.terminal() && is_older(alloc, job)) } else { all };
        let dropped = found - all.len();
        let (state, existing) = self.deployment_state(group);
        let (canaries, all, not_needed) = self.canaries(all);
        let sorted = all.by_taint(self.input);
        let desired = DesiredUpdates {
            ignore: (dropped + sorted.ignored.len()) as u64,
            stop: not_needed as u64,
            ..DesiredUpdates::default()
        };
        Work {
            job,
            group,
            state,
            existing,
            all,
            canaries,
            untainted: sorted.untainted,
            migrate: sorted.migrate,
            lost: sorted.lost,
            reconnecting: sorted.reconnecting,
            disconnecting: sorted.disconnecting,
            reschedule_now: Set::default(),
            lost_later: BTreeMap::new(),
            reschedule_later: Vec::new(),
            waits: false,
            desired,
        }
    }

    /// Decides for each allocation whose node came back whether it or its replacement goes on.
    fn take_back_reconnected(&mut self, work: &mut Work<'_>) {
        if work.reconnecting.is_empty() {
            return;
        }
        let stops = self.out.stop.len();
        let (goes_on, stopped) = self.reconnect(work.job, &work.reconnecting, &work.all);
        let planned = self.out.stop.len() - stops;
        work.desired.stop += planned as u64;
        work.desired.ignore += (stopped.len() - planned) as u64;
        for set in [&mut work.all, &mut work.untainted, &mut work.migrate, &mut work.lost, &mut work.disconnecting] {
            set.minus(&stopped);
        }
        work.reconnecting = goes_on;
    }

    /// Leaves out allocations that have a replacement: a second one would be one too many.
    fn give_up_replaced(&mut self, work: &mut Work<'_>) {
        let is_replaced = |alloc: &Allocation| is_replaced(alloc, &work.all);
        // A disconnected alloc that has a replacement neither counts towards `count` nor is updated: the replacement
        // has its place until it comes back.
        let (disconnected, untainted) =
            split(std::mem::take(&mut work.untainted), |alloc| is_disconnected(alloc) && is_replaced(alloc));
        // Such an alloc is stopped when it has to migrate or is lost.
        let (moved, migrate) = split(std::mem::take(&mut work.migrate), is_replaced);
        let (given_up, lost) =
            split(std::mem::take(&mut work.lost), |alloc| alloc.server_terminal() || is_replaced(alloc));
        self.stop_all(&moved, None, why::NOT_NEEDED);
        self.stop_all(&given_up, Some(AllocClientStatus::Lost), why::LOST);
        work.desired.ignore += disconnected.len() as u64;
        work.desired.stop += (moved.len() + given_up.len()) as u64;
        (work.untainted, work.migrate, work.lost) = (untainted, migrate, lost);
    }

    /// Finds the failed and the disconnecting allocations that are replaced, now or later.
    fn find_rescheduled(&mut self, work: &mut Work<'_>) {
        let deployment = self.deployment.as_ref();
        let untainted = std::mem::take(&mut work.untainted);
        let ByReschedule { untainted, now, mut later } = untainted.by_reschedule(self.input, deployment, false);
        (work.untainted, work.reschedule_now) = (untainted.without_repeated_work(), now);
        work.untainted.add(std::mem::take(&mut work.reconnecting));
        let disconnecting = std::mem::take(&mut work.disconnecting);
        if !disconnecting.is_empty() {
            self.disconnect(&disconnecting);
            // An alloc can disconnect again after a return that no evaluation saw. Its replacement of the first time
            // still has its place.
            let (again, disconnecting) = split(disconnecting, |alloc| is_replaced(alloc, &work.all));
            work.desired.ignore += again.len() as u64;
            let disconnecting = disconnecting.by_reschedule(self.input, self.deployment.as_ref(), true);
            work.untainted.add(disconnecting.untainted);
            work.reschedule_now.add(disconnecting.now);
            later.extend(disconnecting.later);
        }
        work.reschedule_later = later;
    }

    /// Creates the evaluations for lost allocations that may still run, and for those that are rescheduled later.
    fn create_followups(&mut self, work: &mut Work<'_>) {
        work.lost_later = self.lost_later(work.group, &work.lost);
        work.waits = !work.lost_later.is_empty() || self.still_stopping(work.group, &work.all);
        self.reschedule_later(&work.reschedule_later);
    }

    /// Finds the allocations that the current job changes. In-place updates go to the result at once.
    fn find_changes(&mut self, work: &mut Work<'_>) -> Changed {
        let (destructive, in_place, unchanged) = self.updates(work.group, &work.untainted);
        work.desired.ignore += unchanged as u64;
        work.desired.in_place_update += in_place as u64;
        if !work.existing {
            work.state.desired_total += (destructive.len() + in_place) as i64;
        }
        Changed { destructive, in_place }
    }

    /// Places new allocations and replaces changed ones, as far as the deployment allows both now.
    fn change(&mut self, work: &mut Work<'_>, place: Vec<Placement>, destructive: &Set) {
        let canarying = waits_for_promotion(&work.state, destructive);
        let ready = !self.paused && !self.failed && !canarying;
        let mut at_once = if canarying { 0 } else { self.under_provisioned(work, destructive) };
        let (placed, rescheduled) = self.replacements(place, ready, &mut at_once);
        let replaced = if ready { destructive.len().min(at_once) } else { 0 };
        self.destroy(work.group, destructive, replaced);
        work.desired.place += placed as u64;
        work.desired.stop += rescheduled as u64;
        work.desired.destructive_update += replaced as u64;
        work.desired.ignore += (destructive.len() - replaced) as u64;
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
    fn placements(&mut self, work: &mut Work<'_>, names: &mut NameIndex) -> Vec<Placement> {
        if work.waits {
            return Vec::new();
        }
        let wanted = usize::try_from(work.group.count).unwrap_or(0);
        let mut existing = work.untainted.len() + work.migrate.len() + work.reschedule_now.len();
        let mut place: Vec<Placement> = Vec::new();
        for alloc in work.reschedule_now.in_name_order() {
            // Disconnected allocations go on until their limit; failed ones are stopped when their replacement has a
            // node.
            let waits = self.out.disconnect_updates.contains_key(&alloc.id)
                || alloc.client_status == AllocClientStatus::Unknown;
            let stop_previous = if waits { None } else { Some(why::RESCHEDULED) };
            place.push(Placement { rescheduling: true, stop_previous, ..work.after(&alloc) });
        }
        for alloc in work.lost.in_name_order() {
            if existing >= wanted {
                break;
            }
            existing += 1;
            place.push(Placement { lost: true, ..work.after(&alloc) });
        }
        let new = |name| Placement::new(work.group, name);
        place.extend(names.next(wanted.saturating_sub(existing)).into_iter().map(new));
        if !work.existing {
            // Disconnected allocations that are changed may be more than the group has.
            work.state.desired_total = work.group.count.min(work.state.desired_total + place.len() as i64);
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
            let placement = Placement {
                previous: Some(alloc.clone()),
                stop_previous: Some(why::UPDATING),
                ..Placement::new(group, alloc.name.clone())
            };
            self.out.destructive.push(placement);
        }
    }

    fn migrate(&mut self, work: &mut Work<'_>) {
        for alloc in work.migrate.in_name_order() {
            self.stop(&alloc, None, why::MIGRATING);
            self.out.place.push(work.after(&alloc));
        }
        work.desired.migrate += work.migrate.len() as u64;
    }

    /// Number of destructive updates allowed now: `max_parallel` minus the allocations of the deployment whose health
    /// is undecided.
    fn under_provisioned(&self, work: &Work<'_>, destructive: &Set) -> usize {
        let group = work.group;
        let count = usize::try_from(group.count).unwrap_or(0);
        let most = group.update.as_ref().map_or(0, |update| usize::try_from(update.max_parallel).unwrap_or(0));
        if most == 0 || destructive.len() + work.migrate.len() == 0 {
            return count;
        }
        let Some(deployment) = &self.deployment else { return most };
        if self.paused || self.failed {
            return 0;
        }
        let mut left = most;
        for alloc in work.untainted.iter().filter(|alloc| alloc.deployment_id == Some(deployment.id)) {
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

impl Work<'_> {
    /// The numbers in the names of allocations that go on or are replaced by one of the same name.
    fn names_in_use(&self, job_id: &str) -> NameIndex {
        let in_use = [&self.untainted, &self.migrate, &self.reschedule_now, &self.lost];
        let in_use = in_use.into_iter().flat_map(|set| set.iter()).map(Arc::as_ref);
        NameIndex::new(job_id, &self.group.name, self.group.count, in_use)
    }

    /// The replacement of an allocation. Until the canaries are promoted, other allocations keep their version.
    fn after(&self, previous: &Arc<Allocation>) -> Placement {
        let canary = previous.is_canary();
        let keeps_version = is_canarying(&self.state) && !canary;
        let own = previous.job.as_ref().filter(|_| keeps_version);
        Placement {
            previous: Some(previous.clone()),
            canary,
            older: own.map(|job| job.version),
            ..Placement::new(self.group, previous.name.clone())
        }
    }
}

impl Placement {
    /// A new allocation of the current job.
    pub(super) fn new(group: &TaskGroup, name: Str) -> Self {
        Self {
            group: group.name.clone(),
            name,
            previous: None,
            rescheduling: false,
            lost: false,
            canary: false,
            older: None,
            stop_previous: None,
        }
    }
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

/// Whether the allocation is of an older version than this job.
pub(super) fn is_older(alloc: &Allocation, job: &Job) -> bool {
    alloc.job.as_ref().is_some_and(|own| own.version < job.version || own.create_index < job.create_index)
}
