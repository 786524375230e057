//! The quota of a job's namespace during one attempt: the limit, and what its namespaces would use after the plan.

use songline_model::{AllocatedResources, Allocation, QuotaUsed, Str};
use songline_projections::{LimitedBy, State};

/// A quota and its use.
pub(super) struct Quota<'a> {
    limited: LimitedBy<'a>,
    /// The use in the view. An attempt that leaves it as it is may go on above a lowered limit.
    before: QuotaUsed,
    /// The use with the plan so far.
    used: QuotaUsed,
}

impl<'a> Quota<'a> {
    /// The quota that limits the namespace, if there is one.
    pub fn of(view: &'a State, namespace: &str) -> Option<Self> {
        let limited = view.quota_of_namespace(namespace)?;
        let before = view.used_of_quota(limited.quota);
        Some(Self { limited, used: before.clone(), before })
    }

    pub fn name(&self) -> &Str {
        &self.limited.quota.0
    }

    /// The dimensions that one more allocation with these resources would exceed, each with the numbers.
    pub fn exceeded(&self, resources: &AllocatedResources) -> Vec<Str> {
        let mut after = self.used.clone();
        after.add(&QuotaUsed::of_resources(resources));
        self.limited.limit.exceeded(&self.before, &after)
    }

    /// Counts a new allocation.
    pub fn place(&mut self, resources: &AllocatedResources) {
        self.used.add(&QuotaUsed::of_resources(resources));
    }

    /// Leaves an allocation out that stops. It may be one of another namespace, which another quota may limit.
    pub fn stop(&mut self, view: &State, alloc: &Allocation) {
        if view.is_in_quota(&alloc.namespace, self.limited.quota) {
            self.used.subtract(&QuotaUsed::of(alloc));
        }
    }

    /// Counts an allocation of the job again that does not stop after all.
    pub fn resume(&mut self, alloc: &Allocation) {
        self.used.add(&QuotaUsed::of(alloc));
    }
}
