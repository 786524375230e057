//! Whether a change of a group needs a restart of its tasks (a destructive update).

use std::collections::BTreeMap;

use songline_model::{ConsulConnect, Job, NetworkResource, Port, Resources, Service, Str, Task, TaskGroup};

/// Whether allocations of group `name` that run `old` have to be replaced to run `new`. Changes of constraints, counts,
/// policies, affinities and spreads need no replacement: they matter at the next placement. Services need one only for
/// Connect.
pub fn tasks_updated(old: &Job, new: &Job, name: &str) -> bool {
    let (Some(was), Some(is)) = (old.group(name), new.group(name)) else { return true };
    group_differs(was, is) || {
        let tasks = |group: &TaskGroup| group.tasks.as_ref().map_or(0, Vec::len);
        tasks(was) != tasks(is)
            || was.tasks.iter().flatten().any(|task| match is.task(&task.name) {
                Some(other) => task_differs(task, other) || meta(old, was, task) != meta(new, is, other),
                None => true,
            })
    }
}

fn group_differs(was: &TaskGroup, is: &TaskGroup) -> bool {
    was.ephemeral_disk != is.ephemeral_disk
        || networks_differ(&was.networks, &is.networks)
        || was.consul.as_ref().map(|consul| &consul.namespace) != is.consul.as_ref().map(|consul| &consul.namespace)
        || maps_differ(&was.volumes, &is.volumes)
        || renders_templates(&was.restart_policy) != renders_templates(&is.restart_policy)
        || connect_differs(&was.services, &is.services)
}

/// Whether a service with Connect is gone, has no Connect any more, or has other settings of it. Connect that is added
/// to a service needs no replacement for itself; a proxy that comes with it is a new task.
fn connect_differs(was: &Option<Vec<Service>>, is: &Option<Vec<Service>>) -> bool {
    was.iter().flatten().any(|service| {
        let Some(connect) = &service.connect else { return false };
        let Some(same) = is.iter().flatten().find(|other| other.name == service.name) else { return true };
        let Some(other) = &same.connect else { return true };
        service.port_label != same.port_label
            || connect.native != other.native
            || connect.gateway != other.gateway
            || connect.sidecar_task != other.sidecar_task
            || sidecar_port(connect) != sidecar_port(other)
    })
}

/// Port label of the sidecar; `None`: there is no sidecar.
fn sidecar_port(connect: &ConsulConnect) -> Option<&Str> {
    connect.sidecar_service.as_ref().map(|sidecar| &sidecar.port)
}

fn task_differs(was: &Task, is: &Task) -> bool {
    was.driver != is.driver
        || was.user != is.user
        || maps_differ(&was.config, &is.config)
        || maps_differ(&was.env, &is.env)
        || lists_differ(&was.artifacts, &is.artifacts)
        || was.vault != is.vault
        || lists_differ(&was.templates, &is.templates)
        || was.csi_plugin_config != is.csi_plugin_config
        || lists_differ(&was.volume_mounts, &is.volume_mounts)
        || was.identity != is.identity
        || logs_disabled(was) != logs_disabled(is)
        || renders_templates(&was.restart_policy) != renders_templates(&is.restart_policy)
        || resources_differ(was.resources.as_ref(), is.resources.as_ref())
}

fn resources_differ(was: Option<&Resources>, is: Option<&Resources>) -> bool {
    let none = Resources::default();
    let (was, is) = (was.unwrap_or(&none), is.unwrap_or(&none));
    was.cpu != is.cpu
        || was.cores != is.cores
        || was.memory_mb != is.memory_mb
        || was.memory_max_mb != is.memory_max_mb
        || lists_differ(&was.devices, &is.devices)
        || networks_differ(&was.networks, &is.networks)
}

fn networks_differ(was: &Option<Vec<NetworkResource>>, is: &Option<Vec<NetworkResource>>) -> bool {
    let (was, is) = (was.as_deref().unwrap_or_default(), is.as_deref().unwrap_or_default());
    was.len() != is.len()
        || was.iter().zip(is).any(|(was, is)| {
            was.mode != is.mode
                || was.mbits != is.mbits
                || was.hostname != is.hostname
                || was.dns != is.dns
                || ports(was) != ports(is)
        })
}

/// The requested ports of a network. The value of a dynamic port is left out, because it is assigned and not requested.
fn ports(network: &NetworkResource) -> BTreeMap<&Str, (i64, i64, &Str)> {
    let asked = |port: &'_ Port, value| (value, port.to);
    let fixed = network.reserved_ports.iter().flatten().map(|port| (port, asked(port, port.value)));
    let dynamic = network.dynamic_ports.iter().flatten().map(|port| (port, asked(port, -1)));
    fixed.chain(dynamic).map(|(port, (value, to))| (&port.label, (value, to, &port.host_network))).collect()
}

/// Merged meta of a task: the job's, overridden by the group's, overridden by the task's.
fn meta<'a>(job: &'a Job, group: &'a TaskGroup, task: &'a Task) -> BTreeMap<&'a Str, &'a Str> {
    [&job.meta, &group.meta, &task.meta].into_iter().flatten().flatten().collect()
}

fn logs_disabled(task: &Task) -> bool {
    task.log_config.as_ref().is_some_and(|logs| logs.disabled)
}

fn renders_templates(policy: &Option<songline_model::RestartPolicy>) -> bool {
    policy.as_ref().is_some_and(|policy| policy.render_templates)
}

fn maps_differ<K: Ord, V: PartialEq>(was: &Option<BTreeMap<K, V>>, is: &Option<BTreeMap<K, V>>) -> bool {
    match (was, is) {
        (Some(was), Some(is)) => was != is,
        (Some(one), None) | (None, Some(one)) => !one.is_empty(),
        (None, None) => false,
    }
}

fn lists_differ<T: PartialEq>(was: &Option<Vec<T>>, is: &Option<Vec<T>>) -> bool {
    was.as_deref().unwrap_or_default() != is.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
