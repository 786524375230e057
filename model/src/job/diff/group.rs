//! Diffs of task groups, their networks and their volumes.

use std::collections::BTreeSet;

use super::flat::{self, Flat};
use super::object::{keyed, object, set, set_of_objects, sorted, tree};
use super::{DiffType, ObjectDiff, TaskDiff, TaskGroupDiff, kind_of, service, some, task};
use crate::{DnsConfig, Dur, Job, NetworkResource, Port, ScalingPolicy, Str, TaskGroup, VolumeRequest};

/// Diffs of the groups of two jobs, in order of name.
pub(super) fn groups(old: &Job, new: &Job, contextual: bool) -> Vec<TaskGroupDiff> {
    let names: BTreeSet<&Str> = old.groups().chain(new.groups()).map(|group| &group.name).collect();
    names.into_iter().map(|name| group(old.group(name), new.group(name), contextual)).collect()
}

fn group(old: Option<&TaskGroup>, new: Option<&TaskGroup>, contextual: bool) -> TaskGroupDiff {
    let nothing = TaskGroup::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let same = old == new;
    let mut objects = Vec::new();
    objects.extend(set_of_objects("Constraint", &before.constraints, &after.constraints, contextual));
    objects.extend(set_of_objects("Affinity", &before.affinities, &after.affinities, contextual));
    objects.extend(object(
        "RestartPolicy",
        before.restart_policy.as_ref(),
        after.restart_policy.as_ref(),
        &[],
        contextual,
    ));
    objects.extend(object(
        "ReschedulePolicy",
        before.reschedule_policy.as_ref(),
        after.reschedule_policy.as_ref(),
        &[],
        contextual,
    ));
    objects.extend(object(
        "EphemeralDisk",
        before.ephemeral_disk.as_ref(),
        after.ephemeral_disk.as_ref(),
        &[],
        contextual,
    ));
    objects.extend(object("Consul", before.consul.as_ref(), after.consul.as_ref(), &[], contextual));
    objects.extend(object("Update", before.update.as_ref(), after.update.as_ref(), &["Stagger"], contextual));
    objects.extend(networks(&before.networks, &after.networks, contextual));
    objects.extend(scaling(before.scaling.as_ref(), after.scaling.as_ref(), contextual));
    objects.extend(service::services(&before.services, &after.services, contextual));
    objects.extend(volumes(before, after, contextual));
    TaskGroupDiff {
        kind: match kind_of(old, new) {
            DiffType::None if !same => DiffType::Edited,
            kind => kind,
        },
        name: new.or(old).map(|group| group.name.clone()).unwrap_or_default(),
        fields: some(flat::fields(&flat_group(old), &flat_group(new), false)),
        objects: some(objects),
        tasks: some(tasks(before, after, contextual)),
        updates: None,
    }
}

/// Flattens a group. Absent durations are shown as such; an absent group has no fields.
fn flat_group(group: Option<&TaskGroup>) -> Flat {
    let filter = ["Name", "ShutdownDelay", "StopAfterClientDisconnect", "MaxClientDisconnect"];
    let mut flat = Flat::of(group, &filter);
    if let Some(group) = group {
        flat.set("ShutdownDelay", group.shutdown_delay.map(Dur::nanos));
        flat.set("StopAfterClientDisconnect", group.stop_after_client_disconnect.map(Dur::nanos));
        flat.set("MaxClientDisconnect", group.max_client_disconnect.map(Dur::nanos));
    }
    flat
}

/// Diff of the bounds within which an autoscaler sets the count. Fields that servers set are left out.
fn scaling(old: Option<&ScalingPolicy>, new: Option<&ScalingPolicy>, contextual: bool) -> Option<ObjectDiff> {
    const SCALING_NOT_SHOWN: [&str; 6] = ["ID", "Type", "Target", "Policy", "CreateIndex", "ModifyIndex"];
    let bounds = |policy: Option<&ScalingPolicy>| Flat::of(policy, &SCALING_NOT_SHOWN);
    let (before, after) = (bounds(old), bounds(new));
    let policy = |policy: Option<&ScalingPolicy>| policy.and_then(|policy| policy.policy.clone());
    let policy = tree("Policy", &policy(old), &policy(new), contextual);
    if before == after && policy.is_none() {
        return None;
    }
    let mut diff = ObjectDiff::from_flat("Scaling", kind_of(old, new), &before, &after, contextual);
    diff.add_objects(policy);
    Some(diff)
}

fn tasks(old: &TaskGroup, new: &TaskGroup, contextual: bool) -> Vec<TaskDiff> {
    let names: BTreeSet<&Str> = old.tasks.iter().chain(&new.tasks).flatten().map(|task| &task.name).collect();
    names.into_iter().map(|name| task::task(old.task(name), new.task(name), contextual)).collect()
}

/// Networks have no identity: a changed network is shown as one deleted and one added.
pub(super) fn networks(
    old: &Option<Vec<NetworkResource>>,
    new: &Option<Vec<NetworkResource>>,
    contextual: bool,
) -> Vec<ObjectDiff> {
    set(old, new, |old, new| {
        let mut diff = ObjectDiff::changed("Network", old, new, &["Device", "CIDR", "IP"], contextual)?;
        if diff.fields.iter().flatten().all(|field| field.name != "Hostname") && contextual {
            let mut fields = diff.fields.take().unwrap_or_default();
            fields.extend(flat::field("Hostname", Str::default(), Str::default(), true));
            fields.sort_by(|one, other| one.name.cmp(&other.name));
            diff.fields = Some(fields);
        }
        let nothing = NetworkResource::default();
        let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
        diff.add_objects(ports("Static Port", &[], &before.reserved_ports, &after.reserved_ports, contextual));
        diff.add_objects(ports("Dynamic Port", &["Value"], &before.dynamic_ports, &after.dynamic_ports, contextual));
        diff.add_objects(dns(before.dns.as_ref(), after.dns.as_ref(), contextual));
        Some(diff)
    })
}

fn ports(
    name: &str,
    filter: &[&str],
    old: &Option<Vec<Port>>,
    new: &Option<Vec<Port>>,
    contextual: bool,
) -> Vec<ObjectDiff> {
    keyed(old, new, |port| port.label.clone(), |old, new| object(name, old, new, filter, contextual))
}

fn dns(old: Option<&DnsConfig>, new: Option<&DnsConfig>, contextual: bool) -> Option<ObjectDiff> {
    if old == new {
        return None;
    }
    let flat = |dns: Option<&DnsConfig>| {
        let mut flat = Flat::default();
        let Some(dns) = dns else { return flat };
        for (name, list) in [("Servers", &dns.servers), ("Searches", &dns.searches), ("Options", &dns.options)] {
            let list: Vec<&str> = list.iter().flatten().map(Str::as_str).collect();
            if !list.is_empty() {
                flat.set(name, Some(list.join(",")));
            }
        }
        flat
    };
    Some(ObjectDiff::from_flat("DNS", kind_of(old, new), &flat(old), &flat(new), contextual))
}

fn volumes(old: &TaskGroup, new: &TaskGroup, contextual: bool) -> Vec<ObjectDiff> {
    let of = |group: &TaskGroup| group.volumes.clone().unwrap_or_default();
    let (old, new) = (of(old), of(new));
    let names: BTreeSet<&Str> = old.keys().chain(new.keys()).collect();
    sorted(names.into_iter().filter_map(|name| volume(old.get(name), new.get(name), contextual)).collect())
}

fn volume(old: Option<&VolumeRequest>, new: Option<&VolumeRequest>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Volume", old, new, &[], contextual)?;
    let options = |volume: Option<&VolumeRequest>| volume.and_then(|volume| volume.mount_options.clone());
    let (before, after) = (options(old), options(new));
    if before != after {
        let mut options = ObjectDiff::of("MountOptions", before.as_ref(), after.as_ref(), &[], contextual);
        let flags = |options: Option<crate::CsiMountOptions>| options.and_then(|options| options.mount_flags);
        options.add_objects(super::set_of_texts("MountFlags", &flags(before), &flags(after), contextual));
        diff.add_objects([options]);
    }
    Some(diff)
}
