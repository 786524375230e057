//! Canaries: the first allocations of a new version, which have to be promoted before the others are updated. Until
//! then no allocation of the old version is updated, and lost or disconnected ones are replaced in their own version.

use std::collections::BTreeSet;

use songline_model::{AllocClientStatus, AllocId, Allocation, Deployment, DeploymentState};

use super::group::Work;
use super::set::Set;
use super::{NameIndex, Placement, Run, why};

/// Whether the group waits for its canaries to be promoted.
pub(super) fn is_canarying(state: &DeploymentState) -> bool {
    state.desired_canaries != 0 && !state.promoted
}

/// Whether the changes of the group wait for the promotion of its canaries. Without a canary, and with nothing left to
/// replace, there is nothing to promote: no node had room for the canary, and the allocations that were to be replaced
/// have ended since, or can be updated in place now.
pub(super) fn waits_for_promotion(state: &DeploymentState, destructive: &Set) -> bool {
    let has_canaries = state.placed_canaries.iter().flatten().next().is_some();
    is_canarying(state) && (has_canaries || !destructive.is_empty())
}

impl Run<'_, '_> {
    /// Stops canaries that are not needed any more or whose node is gone. Returns (canaries that go on, all remaining
    /// allocations of the group, number of canaries that were not needed).
    pub(super) fn canaries(&mut self, mut all: Set) -> (Set, Set, usize) {
        let failed = self.deployment.as_ref().filter(|_| self.failed);
        let mut unneeded = BTreeSet::new();
        for deployment in self.old_deployment.as_ref().into_iter().chain(failed) {
            unneeded.extend(placed(deployment, |state| !state.promoted));
        }
        let current: BTreeSet<AllocId> =
            self.deployment.iter().flat_map(|deployment| placed(deployment, |_| true)).collect();
        // A canary that has failed is stopped too: it would be rescheduled, and counts as one of the group until then.
        // One that is stopped already counts as stopped once more.
        let unneeded = all.clone().without(|alloc| !unneeded.contains(&alloc.id));
        self.stop_all(&unneeded.clone().without(Allocation::server_terminal), None, why::NOT_NEEDED);
        all.minus(&unneeded);
        let sorted = all.clone().without(|alloc| !current.contains(&alloc.id)).by_taint(self.input);
        self.stop_all(&sorted.migrate, None, why::MIGRATING);
        self.stop_all(&sorted.lost, Some(AllocClientStatus::Lost), why::LOST);
        all.minus(&sorted.migrate);
        all.minus(&sorted.lost);
        (sorted.untainted, all, unneeded.len())
    }

    /// Places the canaries that an update still lacks. True when it lacked some.
    pub(super) fn place_canaries(&mut self, work: &mut Work<'_>, names: &mut NameIndex, destructive: &Set) -> bool {
        let group = work.group;
        let wanted = group.update.as_ref().map_or(0, |update| update.canary);
        // A canary that was lost while the deployment was paused is stopped and still has to be replaced.
        let canaries = work.canaries.clone().without(Allocation::server_terminal);
        let missing = usize::try_from(wanted).unwrap_or(0).saturating_sub(canaries.len());
        if destructive.is_empty() || missing == 0 || work.state.promoted {
            return false;
        }
        work.state.desired_canaries = wanted;
        if !self.paused && !self.failed {
            work.desired.canary += missing as u64;
            let canary = |name| Placement { canary: true, ..Placement::new(group, name) };
            self.out.place.extend(names.for_canaries(missing, &canaries, destructive).into_iter().map(canary));
        }
        true
    }
}

fn placed(deployment: &Deployment, of: impl Fn(&DeploymentState) -> bool) -> Vec<AllocId> {
    let groups = deployment.task_groups.iter().flat_map(|groups| groups.values()).filter(|state| of(state));
    groups.flat_map(|state| state.placed_canaries.iter().flatten()).copied().collect()
}
