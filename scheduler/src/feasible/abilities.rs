//! Abilities that a group needs of the node's agent. Agents of Songline that lack one are filtered, so that a group never
//! runs as if part of its specification were absent; agents of the reference have all of them.

use songline_model::{Node, Resources, Service, Str, Task, TaskGroup};

/// One ability, and the check whether a group needs it.
pub struct Ability {
    /// Name in the node's attributes and in the filter text.
    pub name: &'static str,
    /// Whether this group needs it.
    pub needed: fn(&TaskGroup) -> bool,
}

/// All abilities that groups may need.
pub const ABILITIES: &[Ability] = &[
    Ability { name: "bridge", needed: |group| mode(group, |mode| mode == "bridge" || mode.starts_with("cni/")) },
    Ability { name: "check", needed: |group| checked(&group.services) || any(group, |task| checked(&task.services)) },
    // Tasks that take part in the service mesh: proxies, gateways, and those that speak its protocol themselves.
    Ability { name: "connect", needed: |group| any(group, |task| !task.kind.is_empty()) },
    Ability {
        name: "consul",
        needed: |group| provided(&group.services) || any(group, |task| provided(&task.services)),
    },
    Ability { name: "cores", needed: |group| asks(group, |asked| asked.cores > 0) },
    Ability { name: "csi_plugin", needed: |group| any(group, |task| task.csi_plugin_config.is_some()) },
    Ability { name: "csi_volume", needed: |group| volume(group, "csi") },
    Ability { name: "device", needed: |group| asks(group, |asked| has(&asked.devices)) },
    Ability {
        name: "dns",
        needed: |group| {
            group.networks.iter().flatten().any(|network| network.dns.is_some() || !network.hostname.is_empty())
        },
    },
    Ability { name: "migrate", needed: |group| group.ephemeral_disk.as_ref().is_some_and(|disk| disk.migrate) },
    Ability { name: "network_none", needed: |group| mode(group, |mode| mode == "none") },
    Ability { name: "sticky", needed: |group| group.ephemeral_disk.as_ref().is_some_and(|disk| disk.sticky) },
    Ability { name: "task_network", needed: |group| asks(group, |asked| has(&asked.networks)) },
    Ability { name: "template", needed: |group| any(group, |task| has(&task.templates)) },
    Ability { name: "vault", needed: |group| any(group, |task| task.vault.is_some()) },
    Ability { name: "volume", needed: |group| volume(group, "host") },
    Ability { name: "volume_mount", needed: |group| any(group, |task| has(&task.volume_mounts)) },
];

/// The abilities that the group needs.
pub(super) fn needed(group: &TaskGroup) -> Vec<&'static str> {
    ABILITIES.iter().filter(|ability| (ability.needed)(group)).map(|ability| ability.name).collect()
}

/// Checks whether the node's agent has all of these abilities; `Err` is the filter text.
pub(super) fn check(needed: &[&'static str], node: &Node) -> Result<(), Str> {
    match needed.iter().find(|name| !node.has_ability(name)) {
        Some(name) => Err(format!("missing ability {name:?} of the node's agent").into()),
        None => Ok(()),
    }
}

fn has<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// Whether the group's network has such a mode.
fn mode(group: &TaskGroup, is_it: impl Fn(&str) -> bool) -> bool {
    group.networks.iter().flatten().any(|network| is_it(&network.mode))
}

/// Whether the group asks for volumes of this type.
fn volume(group: &TaskGroup, kind: &str) -> bool {
    group.volumes.iter().flatten().any(|(_, request)| request.kind == kind)
}

/// Whether a service is registered at the Consul agent of the node.
fn provided(services: &Option<Vec<Service>>) -> bool {
    services.iter().flatten().any(|service| service.provider == "consul")
}

/// Whether a service kept by the servers has checks. Those of Consul are run by Consul.
fn checked(services: &Option<Vec<Service>>) -> bool {
    services.iter().flatten().any(|service| service.provider == "nomad" && has(&service.checks))
}

fn any(group: &TaskGroup, used: impl Fn(&Task) -> bool) -> bool {
    group.tasks.iter().flatten().any(used)
}

fn asks(group: &TaskGroup, used: impl Fn(&Resources) -> bool) -> bool {
    any(group, |task| task.resources.as_ref().is_some_and(&used))
}

#[cfg(test)]
mod tests;
