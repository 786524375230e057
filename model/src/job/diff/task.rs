//! Diffs of tasks: their resources, templates, secrets.

use super::flat::{self, Flat};
use super::group::networks;
use super::object::{config, from_fields, keyed, object, set_of_objects, set_of_texts, sorted};
use super::{DiffType, ObjectDiff, TaskDiff, kind_of, service, some};
use crate::{ChangeScript, RequestedDevice, Resources, Task, Template, Vault, WaitConfig};

/// Diff of one task.
pub(super) fn task(old: Option<&Task>, new: Option<&Task>, contextual: bool) -> TaskDiff {
    let nothing = Task::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let mut objects = Vec::new();
    objects.extend(set_of_objects("Constraint", &before.constraints, &after.constraints, contextual));
    objects.extend(set_of_objects("Affinity", &before.affinities, &after.affinities, contextual));
    objects.extend(config(&before.config, &after.config, contextual));
    objects.extend(resources(before.resources.as_ref(), after.resources.as_ref(), contextual));
    objects.extend(object("LogConfig", before.log_config.as_ref(), after.log_config.as_ref(), &[], contextual));
    objects.extend(object(
        "DispatchPayload",
        before.dispatch_payload.as_ref(),
        after.dispatch_payload.as_ref(),
        &[],
        contextual,
    ));
    objects.extend(set_of_objects("Artifact", &before.artifacts, &after.artifacts, contextual));
    objects.extend(service::services(&before.services, &after.services, contextual));
    objects.extend(vault(before.vault.as_ref(), after.vault.as_ref(), contextual));
    objects.extend(templates(&before.templates, &after.templates, contextual));
    objects.extend(object("Identity", before.identity.as_ref(), after.identity.as_ref(), &[], contextual));
    let fields = flat::fields(&Flat::of(old, &["Name"]), &Flat::of(new, &["Name"]), false);
    TaskDiff {
        kind: match kind_of(old, new) {
            DiffType::None if old != new => DiffType::Edited,
            kind => kind,
        },
        name: new.or(old).map(|task| task.name.clone()).unwrap_or_default(),
        fields: some(fields),
        objects: some(objects),
        annotations: None,
    }
}

/// Diff of the resources of a task.
pub(super) fn resources(old: Option<&Resources>, new: Option<&Resources>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Resources", old, new, &[], contextual)?;
    let nothing = Resources::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(networks(&before.networks, &after.networks, contextual));
    diff.add_objects(keyed(
        &before.devices,
        &after.devices,
        |device| device.name.clone(),
        |old, new| device(old, new, contextual),
    ));
    Some(diff)
}

fn device(old: Option<&RequestedDevice>, new: Option<&RequestedDevice>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Device", old, new, &[], contextual)?;
    let nothing = RequestedDevice::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(set_of_objects("Constraint", &before.constraints, &after.constraints, contextual));
    diff.add_objects(set_of_objects("Affinity", &before.affinities, &after.affinities, contextual));
    Some(diff)
}

fn vault(old: Option<&Vault>, new: Option<&Vault>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Vault", old, new, &[], contextual)?;
    let policies = |vault: Option<&Vault>| vault.and_then(|vault| vault.policies.clone());
    diff.add_objects(set_of_texts("Policies", &policies(old), &policies(new), contextual));
    Some(diff)
}

/// Diffs of templates. The only template of a task is the same one after a change, several are matched by their
/// destinations.
fn templates(old: &Option<Vec<Template>>, new: &Option<Vec<Template>>, contextual: bool) -> Vec<ObjectDiff> {
    let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
    if let ([old], [new]) = (old, new) {
        return template(Some(old), Some(new), contextual).into_iter().collect();
    }
    let mut left: Vec<&Template> = new.iter().filter(|template| !old.contains(template)).collect();
    let mut diffs = Vec::new();
    for gone in old.iter().filter(|template| !new.contains(template)) {
        let same = left.iter().position(|template| template.dest_path == gone.dest_path);
        diffs.extend(template(Some(gone), same.map(|at| left.remove(at)), contextual));
    }
    diffs.extend(left.into_iter().filter_map(|new| template(None, Some(new), contextual)));
    sorted(diffs)
}

fn template(old: Option<&Template>, new: Option<&Template>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Template", old, new, &[], contextual)?;
    let wait = |template: Option<&Template>| template.and_then(|template| template.wait.clone());
    diff.add_objects(wait_diff(wait(old).as_ref(), wait(new).as_ref(), contextual));
    let script = |template: Option<&Template>| template.and_then(|template| template.change_script.clone());
    diff.add_objects(script_diff(script(old).as_ref(), script(new).as_ref(), contextual));
    Some(diff)
}

fn wait_diff(old: Option<&WaitConfig>, new: Option<&WaitConfig>, contextual: bool) -> Option<ObjectDiff> {
    let flat = |wait: Option<&WaitConfig>| {
        let mut flat = Flat::default();
        if let Some(wait) = wait {
            flat.set("Min", wait.min);
            flat.set("Max", wait.max);
        }
        flat
    };
    if old == new { None } else { from_fields("Template", flat::fields(&flat(old), &flat(new), contextual)) }
}

fn script_diff(old: Option<&ChangeScript>, new: Option<&ChangeScript>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("ChangeScript", old, new, &[], contextual)?;
    let args = |script: Option<&ChangeScript>| script.and_then(|script| script.args.clone());
    diff.add_objects(set_of_texts("Args", &args(old), &args(new), contextual));
    Some(diff)
}
