//! Scaling policies as rows: the target of a policy, and the comparison of two.

use crate::{JobKey, ScalingPolicy, Str};

/// Target of a policy. There is one policy of each type per target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ScalingTarget {
    /// The job.
    pub job: JobKey,
    /// The group.
    pub group: Str,
    /// A task of the group; empty for the group itself.
    pub task: Str,
    /// The policy's type.
    pub kind: Str,
}

impl ScalingPolicy {
    /// The policy's target, with its type.
    pub fn target_key(&self) -> ScalingTarget {
        let part = |name: &str| self.target.as_ref().and_then(|target| target.get(name)).cloned().unwrap_or_default();
        ScalingTarget {
            job: JobKey::new(part("Namespace"), part("Job")),
            group: part("Group"),
            task: part("Task"),
            kind: self.kind.clone(),
        }
    }

    /// Whether both policies are equal apart from id and indexes.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let plain = |row: &Self| Self { id: Str::default(), create_index: 0, modify_index: 0, ..row.clone() };
        plain(self) == plain(other)
    }
}
