//! Annotations of a diff: the number of allocations created and destroyed, and whether a changed task has to be
//! replaced.

use std::collections::BTreeMap;

use super::{DiffType, FieldDiff, JobDiff, TaskDiff, TaskGroupDiff};
use crate::{DesiredUpdates, PlanAnnotations, Str};

const CREATE: &str = "forces create";
const DESTROY: &str = "forces destroy";
const IN_PLACE: &str = "forces in-place update";
const REPLACE: &str = "forces create/destroy update";

impl JobDiff {
    /// Adds the scheduler's annotations.
    pub fn annotate(&mut self, annotations: Option<&PlanAnnotations>) {
        for group in self.task_groups.iter_mut().flatten() {
            group.annotate(annotations);
        }
    }
}

impl TaskGroupDiff {
    fn annotate(&mut self, annotations: Option<&PlanAnnotations>) {
        if let Some(wanted) = annotations.and_then(|annotations| annotations.desired_tg_updates.get(&self.name)) {
            self.updates = Some(counts(wanted));
        }
        for field in self.fields.iter_mut().flatten().filter(|field| field.name == "Count") {
            annotate_count(field);
        }
        let whole = self.kind;
        for task in self.tasks.iter_mut().flatten() {
            task.annotate(whole);
        }
    }
}

fn counts(wanted: &DesiredUpdates) -> BTreeMap<Str, u64> {
    [
        ("ignore", wanted.ignore),
        ("create", wanted.place),
        ("destroy", wanted.stop),
        ("migrate", wanted.migrate),
        ("canary", wanted.canary),
        ("in-place update", wanted.in_place_update),
        ("create/destroy update", wanted.destructive_update),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| (name.into(), count))
    .collect()
}

fn annotate_count(field: &mut FieldDiff) {
    let count = |text: &str| text.parse::<i64>().unwrap_or_default();
    let (old, new) = (count(&field.old), count(&field.new));
    let annotation = match new.cmp(&old) {
        std::cmp::Ordering::Greater => CREATE,
        std::cmp::Ordering::Less => DESTROY,
        std::cmp::Ordering::Equal => return,
    };
    field.annotations.get_or_insert_default().push(annotation.into());
}

impl TaskDiff {
    fn annotate(&mut self, group: DiffType) {
        let annotation = match (group, self.kind) {
            (_, DiffType::None) => return,
            (DiffType::Added | DiffType::Deleted, DiffType::Added) => CREATE,
            (DiffType::Added | DiffType::Deleted, DiffType::Deleted) => DESTROY,
            // The annotation of the added or deleted group already covers its tasks.
            (DiffType::Added | DiffType::Deleted, DiffType::Edited) => return,
            // A task that comes to a group or leaves it changes the allocations of the group.
            (DiffType::Edited | DiffType::None, _) if self.has_to_be_replaced() => REPLACE,
            (DiffType::Edited | DiffType::None, _) => IN_PLACE,
        };
        self.annotations.get_or_insert_default().push(annotation.into());
    }

    fn has_to_be_replaced(&self) -> bool {
        let fields =
            self.fields.iter().flatten().any(|field| field.kind != DiffType::None && field.name != "KillTimeout");
        fields
            || self.objects.iter().flatten().filter(|object| object.kind != DiffType::None).any(|object| {
                match object.name.as_str() {
                    "Service" | "Constraint" => false,
                    // A contextual diff always lists the field, so any change of `LogConfig` counts as a change of it:
                    // clients have come to expect it.
                    "LogConfig" => object.fields.iter().flatten().any(|field| field.name == "Disabled"),
                    _ => true,
                }
            })
    }
}
