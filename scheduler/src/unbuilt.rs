//! Features of a job that are not built yet. A group that uses one is not placed, and its evaluation names the feature:
//! a job never runs as if part of its specification were absent. This list shrinks to nothing.

use std::collections::BTreeMap;

use songline_model::{Job, Service, Str, Task, TaskGroup};

/// One feature, and the check whether a group uses it.
pub struct Feature {
    /// Name of the feature in the evaluation.
    pub name: &'static str,
    /// Whether this group of this job uses it.
    pub used: fn(&Job, &TaskGroup) -> bool,
}

/// All features that are not built yet.
pub const FEATURES: &[Feature] = &[
    Feature { name: "multiregion", used: |job, _| job.is_multiregion() },
    Feature { name: "volume", used: |_, group| group.volumes.as_ref().is_some_and(|volumes| !volumes.is_empty()) },
    Feature {
        name: "service check",
        used: |_, group| checked(&group.services) || any(group, |task| checked(&task.services)),
    },
    Feature { name: "template", used: |_, group| any(group, |task| has(&task.templates)) },
    Feature { name: "vault", used: |_, group| any(group, |task| task.vault.is_some()) },
    Feature { name: "volume_mount", used: |_, group| any(group, |task| has(&task.volume_mounts)) },
    Feature { name: "csi_plugin", used: |_, group| any(group, |task| task.csi_plugin_config.is_some()) },
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

fn has<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// Whether a service kept by the servers has checks. Services of other providers depend on the node.
fn checked(services: &Option<Vec<Service>>) -> bool {
    services.iter().flatten().any(|service| service.provider == "nomad" && has(&service.checks))
}

fn any(group: &TaskGroup, used: impl Fn(&Task) -> bool) -> bool {
    group.tasks.iter().flatten().any(used)
}

#[cfg(test)]
mod tests;
