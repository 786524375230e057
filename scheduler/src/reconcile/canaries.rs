//! Canaries: the first allocations of a new version, which have to be promoted before the others are updated. Until
//! then no allocation of the old version is updated, and lost or disconnected ones are replaced in their own version.

use std::collections::BTreeSet;

use songline_model::{AllocClientStatus, AllocId, Deployment, DeploymentState, Str, TaskGroup};

use super::set::Set;
use super::{NameIndex, Placement, Run, why};

/// Whether the group waits for its canaries to be promoted.
pub(super) fn is_canarying(state: &DeploymentState) -> bool {
    state.desired_canaries != 0 && !state.promoted
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
        let unneeded = all.clone().without(|alloc| !unneeded.contains(&alloc.id) || alloc.terminal());
        self.stop_all(&unneeded, None, why::NOT_NEEDED);
        all.minus(&unneeded);
        let sorted = all.clone().without(|alloc| !current.contains(&alloc.id)).by_taint(self.input);
        self.stop_all(&sorted.migrate, None, why::MIGRATING);
        self.stop_all(&sorted.lost, Some(AllocClientStatus::Lost), why::LOST);
        all.minus(&sorted.migrate);
        all.minus(&sorted.lost);
        (sorted.untainted, all, unneeded.len())
    }

    /// Places the canaries that an update still lacks.
    pub(super) fn place_canaries(
        &mut self,
        group: &TaskGroup,
        state: &mut DeploymentState,
        names: &mut NameIndex,
        canaries: &Set,
        destructive: &Set,
    ) {
        let wanted = group.update.as_ref().map_or(0, |update| update.canary);
        state.desired_canaries = wanted;
        if self.paused || self.failed {
            return;
        }
        let missing = usize::try_from(wanted).unwrap_or(0).saturating_sub(canaries.len());
        self.out.desired.entry(group.name.clone()).or_default().canary += missing as u64;
        for name in names.for_canaries(missing, canaries, destructive) {
            self.out.place.push(Placement::canary(group.name.clone(), name));
        }
    }
}

impl Placement {
    fn canary(group: Str, name: Str) -> Self {
        Self { group, name, previous: None, rescheduling: false, lost: false, canary: true, stop_previous: None }
    }
}

fn placed(deployment: &Deployment, of: impl Fn(&DeploymentState) -> bool) -> Vec<AllocId> {
    let groups = deployment.task_groups.iter().flat_map(|groups| groups.values()).filter(|state| of(state));
    groups.flat_map(|state| state.placed_canaries.iter().flatten()).copied().collect()
}
