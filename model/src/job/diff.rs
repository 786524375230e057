//! Differences between two versions of a job, as plans and histories show them. A contextual diff also lists unchanged
//! fields of a changed object, so that a reader can identify the object.

mod annotate;
mod flat;
mod group;
mod object;
mod service;
mod task;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::{Job, Str};
use flat::Flat;
use object::{object, set_of_objects, set_of_texts};

/// Type of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum DiffType {
    /// No difference.
    #[default]
    None,
    /// New in the second version.
    Added,
    /// Missing from the second version.
    Deleted,
    /// Different in the second version.
    Edited,
}

/// Differences between two versions of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDiff {
    #[serde(rename = "Type")]
    pub kind: DiffType,
    #[serde(rename = "ID")]
    pub id: Str,
    pub fields: Option<Vec<FieldDiff>>,
    pub objects: Option<Vec<ObjectDiff>>,
    pub task_groups: Option<Vec<TaskGroupDiff>>,
}

/// Differences of a task group.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TaskGroupDiff {
    #[serde(rename = "Type")]
    pub kind: DiffType,
    pub name: Str,
    pub fields: Option<Vec<FieldDiff>>,
    pub objects: Option<Vec<ObjectDiff>>,
    pub tasks: Option<Vec<TaskDiff>>,
    pub updates: Option<std::collections::BTreeMap<Str, u64>>,
}

/// Differences of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TaskDiff {
    #[serde(rename = "Type")]
    pub kind: DiffType,
    pub name: Str,
    pub fields: Option<Vec<FieldDiff>>,
    pub objects: Option<Vec<ObjectDiff>>,
    pub annotations: Option<Vec<Str>>,
}

/// Differences of a nested object.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ObjectDiff {
    #[serde(rename = "Type")]
    pub kind: DiffType,
    pub name: Str,
    pub fields: Option<Vec<FieldDiff>>,
    pub objects: Option<Vec<ObjectDiff>>,
}

/// Old and new value of one field.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FieldDiff {
    #[serde(rename = "Type")]
    pub kind: DiffType,
    pub name: Str,
    pub old: Str,
    pub new: Str,
    pub annotations: Option<Vec<Str>>,
}

/// Two jobs with different ids can not be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("can not diff jobs with different IDs: {old:?} and {new:?}")]
pub struct DifferentJobs {
    /// Id of the old job.
    pub old: Str,
    /// Id of the new job.
    pub new: Str,
}

/// Fields that a diff leaves out: those that servers maintain, and those shown elsewhere.
const NOT_SHOWN: [&str; 12] = [
    "ID",
    "Status",
    "StatusDescription",
    "Version",
    "Stable",
    "CreateIndex",
    "ModifyIndex",
    "JobModifyIndex",
    "SubmitTime",
    "NomadTokenID",
    "VaultToken",
    "Payload",
];

impl JobDiff {
    /// The difference from `old` to `new`; `None` stands for a job that does not exist. Fails when the ids differ.
    pub fn between(old: Option<&Job>, new: Option<&Job>, contextual: bool) -> Result<Self, DifferentJobs> {
        if let (Some(old), Some(new)) = (old, new)
            && old.id != new.id
        {
            return Err(DifferentJobs { old: old.id.0.clone(), new: new.id.0.clone() });
        }
        let nothing = Job::default();
        let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
        let mut objects = Vec::new();
        objects.extend(
            set_of_texts("Datacenters", &before.datacenters, &after.datacenters, contextual)
                .filter(|diff| diff.kind != DiffType::None),
        );
        objects.extend(set_of_objects("Constraint", &before.constraints, &after.constraints, contextual));
        objects.extend(set_of_objects("Affinity", &before.affinities, &after.affinities, contextual));
        let task_groups = group::groups(before, after, contextual);
        objects.extend(object("Periodic", before.periodic.as_ref(), after.periodic.as_ref(), &[], contextual).map(
            |mut diff| {
                let specs = |job: &Job| job.periodic.as_ref().and_then(|periodic| periodic.specs.clone());
                diff.add_objects(set_of_texts("Specs", &specs(before), &specs(after), contextual));
                diff
            },
        ));
        objects.extend(parameterized(before, after, contextual));
        objects.extend(multiregion(before, after, contextual));
        let fields = flat::fields(&Flat::of(old, &NOT_SHOWN), &Flat::of(new, &NOT_SHOWN), false);
        let mut diff = JobDiff {
            kind: kind_of(old, new),
            id: new.or(old).map(|job| job.id.0.clone()).unwrap_or_default(),
            fields: some(fields),
            objects: some(objects),
            task_groups: some(task_groups),
        };
        if diff.kind == DiffType::None && diff.says_something() {
            diff.kind = DiffType::Edited;
        }
        Ok(diff)
    }

    fn says_something(&self) -> bool {
        self.fields.iter().flatten().any(|field| field.kind != DiffType::None)
            || self.objects.iter().flatten().any(|object| object.kind != DiffType::None)
            || self.task_groups.iter().flatten().any(|group| group.kind != DiffType::None)
    }
}

fn parameterized(before: &Job, after: &Job, contextual: bool) -> Option<ObjectDiff> {
    let (old, new) = (before.parameterized_job.as_ref(), after.parameterized_job.as_ref());
    if old == new {
        return None;
    }
    let mut diff = ObjectDiff::of("ParameterizedJob", old, new, &[], contextual);
    let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
    let lists = [
        ("MetaOptional", &old.meta_optional, &new.meta_optional),
        ("MetaRequired", &old.meta_required, &new.meta_required),
    ];
    for (name, old, new) in lists {
        diff.add_objects(set_of_texts(name, old, new, contextual));
    }
    Some(diff)
}

fn multiregion(before: &Job, after: &Job, contextual: bool) -> Option<ObjectDiff> {
    let (old, new) = (before.multiregion.as_ref(), after.multiregion.as_ref());
    if old == new {
        return None;
    }
    let mut diff = ObjectDiff::of("Multiregion", old, new, &[], contextual);
    let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
    diff.add_objects(object("Strategy", old.strategy.as_ref(), new.strategy.as_ref(), &[], contextual));
    diff.add_objects(object::keyed(
        &old.regions,
        &new.regions,
        |region| region.name.clone(),
        |old, new| {
            let mut diff = ObjectDiff::changed("Region", old, new, &[], contextual)?;
            let datacenters =
                |region: Option<&crate::MultiregionRegion>| region.and_then(|region| region.datacenters.clone());
            diff.add_objects(set_of_texts("Datacenters", &datacenters(old), &datacenters(new), contextual));
            Some(diff)
        },
    ));
    Some(diff)
}

/// Added, deleted, or (not yet compared) none.
fn kind_of<T>(old: Option<&T>, new: Option<&T>) -> DiffType {
    match (old, new) {
        (None, Some(_)) => DiffType::Added,
        (Some(_), None) => DiffType::Deleted,
        (Some(_), Some(_)) | (None, None) => DiffType::None,
    }
}

/// The list, or `None` if it is empty.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    if list.is_empty() { None } else { Some(list) }
}
