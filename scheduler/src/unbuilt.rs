//! Features of a job that the servers have not built yet. A group that uses one is not placed, and its evaluation names
//! the feature: a job never runs as if part of its specification were absent. This list shrinks to nothing. Features
//! that depend on the node's agent are in [`crate::feasible::abilities`].

use std::collections::BTreeMap;

use songline_model::{Job, Str, Task, TaskGroup};

/// One feature, and the check whether a group uses it.
pub struct Feature {
    /// Name of the feature in the evaluation.
    pub name: &'static str,
    /// Whether this group of this job uses it.
    pub used: fn(&Job, &TaskGroup) -> bool,
}

/// All features that are not built yet.
pub const FEATURES: &[Feature] = &[
    Feature { name: "vault", used: |_, group| any(group, |task| task.vault.is_some()) },
    Feature { name: "connect", used: |_, group| any(group, |task| !task.kind.is_empty()) },
];

/// The unbuilt features of `group`, as filter texts of its evaluation. Empty: the group can be placed.
pub fn missing(job: &Job, group: &TaskGroup) -> Vec<Str> {
    FEATURES
        .iter()
        .filter(|feature| (feature.used)(job, group))
        .map(|feature| format!("{} is not built yet", feature.name).into())
        .collect()
}

/// The groups of the job that cannot be placed, with the same texts.
pub(crate) fn missing_of_groups(job: &Job) -> BTreeMap<Str, Vec<Str>> {
    job.groups()
        .map(|group| (group.name.clone(), missing(job, group)))
        .filter(|(_, missing)| !missing.is_empty())
        .collect()
}

fn any(group: &TaskGroup, used: impl Fn(&Task) -> bool) -> bool {
    group.tasks.iter().flatten().any(used)
}

#[cfg(test)]
mod tests;
