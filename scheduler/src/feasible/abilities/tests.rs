//! Each ability is needed by the group that uses it, and a plain group needs none.

use songline_model::{
    DnsConfig, EphemeralDisk, NetworkResource, RequestedDevice, Resources, Service, ServiceCheck, Task,
    TaskCsiPluginConfig, TaskGroup, Template, Vault, VolumeMount, VolumeRequest,
};

use super::{ABILITIES, needed};

fn of_group(change: impl FnOnce(&mut TaskGroup)) -> Vec<&'static str> {
    let mut group = TaskGroup { tasks: Some(vec![Task::default()]), ..TaskGroup::default() };
    change(&mut group);
    needed(&group)
}

fn of_task(change: impl FnOnce(&mut Task)) -> Vec<&'static str> {
    let mut task = Task::default();
    change(&mut task);
    of_group(|group| group.tasks = Some(vec![task]))
}

fn of_resources(resources: Resources) -> Vec<&'static str> {
    of_task(|task| task.resources = Some(resources))
}

fn checked() -> Service {
    Service { provider: "nomad".into(), checks: Some(vec![ServiceCheck::default()]), ..Service::default() }
}

fn of_consul() -> Service {
    Service { provider: "consul".into(), ..checked() }
}

fn disk(sticky: bool, migrate: bool) -> Vec<&'static str> {
    of_group(|group| group.ephemeral_disk = Some(EphemeralDisk { sticky, migrate, ..EphemeralDisk::default() }))
}

fn volume(kind: &str) -> Vec<&'static str> {
    let request = VolumeRequest { kind: kind.into(), ..VolumeRequest::default() };
    of_group(|group| group.volumes = Some([("v".into(), request)].into()))
}

fn network(network: NetworkResource) -> Vec<&'static str> {
    of_group(|group| group.networks = Some(vec![network]))
}

#[test]
fn plain_group_needs_no_ability() {
    assert!(of_group(|_| {}).is_empty());
    assert!(of_resources(Resources { cpu: 100, ..Resources::default() }).is_empty());
    let unchecked = Service { provider: "nomad".into(), ..Service::default() };
    assert!(of_group(|group| group.services = Some(vec![unchecked])).is_empty());
}

#[test]
fn each_ability_is_needed_where_it_is_used() {
    let uses = [
        ("bridge", network(NetworkResource { mode: "bridge".into(), ..NetworkResource::default() })),
        ("bridge", network(NetworkResource { mode: "cni/lan".into(), ..NetworkResource::default() })),
        ("network_none", network(NetworkResource { mode: "none".into(), ..NetworkResource::default() })),
        ("check", of_group(|group| group.services = Some(vec![checked()]))),
        ("check", of_task(|task| task.services = Some(vec![checked()]))),
        ("connect", of_task(|task| task.kind = "connect-proxy:web".into())),
        // The checks of such a service are Consul's.
        ("consul", of_group(|group| group.services = Some(vec![of_consul()]))),
        ("consul", of_task(|task| task.services = Some(vec![of_consul()]))),
        ("cores", of_resources(Resources { cores: 1, ..Resources::default() })),
        ("csi_plugin", of_task(|task| task.csi_plugin_config = Some(TaskCsiPluginConfig::default()))),
        ("csi_volume", volume("csi")),
        ("device", of_resources(Resources { devices: Some(vec![RequestedDevice::default()]), ..Resources::default() })),
        ("dns", network(NetworkResource { dns: Some(DnsConfig::default()), ..NetworkResource::default() })),
        ("dns", network(NetworkResource { hostname: "web".into(), ..NetworkResource::default() })),
        ("migrate", disk(false, true)),
        ("sticky", disk(true, false)),
        (
            "task_network",
            of_resources(Resources { networks: Some(vec![NetworkResource::default()]), ..Resources::default() }),
        ),
        ("template", of_task(|task| task.templates = Some(vec![Template::default()]))),
        ("vault", of_task(|task| task.vault = Some(Vault::default()))),
        ("volume", volume("host")),
        ("volume_mount", of_task(|task| task.volume_mounts = Some(vec![VolumeMount::default()]))),
    ];
    for ability in ABILITIES {
        assert!(uses.iter().any(|(name, _)| *name == ability.name), "no use of {}", ability.name);
    }
    for (name, found) in uses {
        assert_eq!(found, [name]);
    }
}
