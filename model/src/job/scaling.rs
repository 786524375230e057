//! Ids of scaling policies: a policy keeps its id over the versions of its job.

use crate::{Job, ScalingPolicy, Str};

impl Job {
    /// Gives each group's policy the id and indexes that it has in `old`, or a fresh id if `old` has no such policy of
    /// the same type.
    pub fn carry_scaling_policies(&mut self, old: Option<&Job>, mut fresh: impl FnMut() -> Str) {
        for group in self.task_groups.iter_mut().flatten() {
            let Some(policy) = &mut group.scaling else { continue };
            let before = old.and_then(|old| old.group(&group.name)).and_then(|group| group.scaling.as_ref());
            match before.filter(|before| before.kind == policy.kind && !before.id.is_empty()) {
                Some(before) => {
                    policy.id = before.id.clone();
                    policy.create_index = before.create_index;
                    policy.modify_index = before.modify_index;
                }
                None => policy.id = fresh(),
            }
        }
    }

    /// The scaling policies of the job's groups.
    pub fn scaling_policies(&self) -> impl Iterator<Item = &ScalingPolicy> {
        self.groups().filter_map(|group| group.scaling.as_ref())
    }
}
