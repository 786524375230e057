//! Words of the stories about ranking, quotas and what nodes grant.

use std::collections::BTreeMap;
use std::fmt::Write;

use songline_commands::{UpsertNamespaces, UpsertQuotaSpecs};
use songline_model::{
    Affinity, Allocation, Namespace, NodeDevice, NodeDeviceResource, PreemptionConfig, QuotaLimit, QuotaSpec,
    RequestedDevice, Resources, SchedulerAlgorithm, SchedulerConfiguration, Spread, SpreadTarget, Str,
};

/// An affinity such as `${meta.rack},=,r1,50`: attribute, operand, value, weight.
pub(super) fn affinity(text: &str) -> Affinity {
    let parts: Vec<&str> = text.split(',').collect();
    Affinity {
        l_target: parts[0].into(),
        operand: parts[1].into(),
        r_target: parts[2].into(),
        weight: parts[3].parse().unwrap(),
    }
}

/// A group of devices such as `nvidia/gpu/1080ti:a1,a2`: vendor, type, name, ids.
pub(super) fn device_group(text: &str) -> NodeDeviceResource {
    let (name, ids) = text.split_once(':').unwrap();
    let parts: Vec<&str> = name.split('/').collect();
    let device = |id: &str| NodeDevice { id: id.into(), healthy: true, ..NodeDevice::default() };
    NodeDeviceResource {
        vendor: parts[0].into(),
        kind: parts[1].into(),
        name: parts[2].into(),
        instances: Some(ids.split(',').map(device).collect()),
        attributes: None,
    }
}

/// A request for devices such as `nvidia/gpu,2`, with an affinity such as `,${device.model},=,1080ti,50`.
pub(super) fn requested_device(text: &str) -> RequestedDevice {
    let (name, rest) = text.split_once(',').unwrap();
    let (count, preferred) = rest.split_once(',').unwrap_or((rest, ""));
    RequestedDevice {
        name: name.into(),
        count: count.parse().unwrap(),
        affinities: (!preferred.is_empty()).then(|| vec![affinity(preferred)]),
        ..RequestedDevice::default()
    }
}

/// The scheduler configuration: `algorithm=spread`, `oversubscribe`, and `service_preempts` and its like for the job types.
pub(super) fn scheduler_config(words: &BTreeMap<&str, &str>) -> SchedulerConfiguration {
    SchedulerConfiguration {
        scheduler_algorithm: words
            .get("algorithm")
            .and_then(|word| SchedulerAlgorithm::from_word(word))
            .unwrap_or_default(),
        memory_oversubscription_enabled: words.contains_key("oversubscribe"),
        preemption_config: PreemptionConfig {
            system_scheduler_enabled: words.contains_key("system_preempts"),
            sys_batch_scheduler_enabled: words.contains_key("sysbatch_preempts"),
            batch_scheduler_enabled: words.contains_key("batch_preempts"),
            service_scheduler_enabled: words.contains_key("service_preempts"),
        },
        ..SchedulerConfiguration::default()
    }
}

/// A spread such as `${node.datacenter},100,dc1:60`: attribute, weight, targets.
pub(super) fn spread(text: &str) -> Spread {
    let mut parts = text.split(',');
    let (attribute, weight) = (parts.next().unwrap().into(), parts.next().unwrap().parse().unwrap());
    let target =
        |(value, percent): (&str, &str)| SpreadTarget { value: value.into(), percent: percent.parse().unwrap() };
    let targets: Vec<SpreadTarget> = parts.map(|part| target(part.split_once(':').unwrap())).collect();
    Spread { attribute, weight, spread_target: (!targets.is_empty()).then_some(targets) }
}

/// Ports, cores and devices that the tasks of an alloc have for themselves.
pub(super) fn told_tasks(alloc: &Allocation) -> String {
    let mut told = String::new();
    let tasks = alloc.allocated_resources.iter().flat_map(|resources| resources.tasks.iter().flatten());
    for (name, task) in tasks {
        for network in task.networks.iter().flatten() {
            for port in network.reserved_ports.iter().chain(network.dynamic_ports.iter()).flatten() {
                let value = if port.value < 20_000 { port.value } else { -1 };
                write!(told, " {name} {}:{}={value}", network.ip, port.label).unwrap();
            }
        }
        for given in task.devices.iter().flatten() {
            let ids = given.device_ids.as_ref().unwrap().join(",");
            write!(told, " {name} {}/{}/{}:{ids}", given.vendor, given.kind, given.name).unwrap();
        }
        if let Some(cores) = &task.cpu.reserved_cores {
            write!(told, " {name} cores {cores:?} cpu {}", task.cpu.cpu_shares).unwrap();
        }
    }
    told
}

/// `cpu=1000 mem=512 allocs=3 cores=2 device=nvidia/gpu:1`: the commands that limit the default namespace.
pub(super) fn quota(words: &BTreeMap<&str, &str>) -> (UpsertQuotaSpecs, UpsertNamespaces) {
    let number = |key: &str| words.get(key).map_or(0, |text| text.parse().unwrap());
    let device = |text: &&str| {
        let (name, count) = text.split_once(':').unwrap();
        vec![RequestedDevice { name: name.into(), count: count.parse().unwrap(), ..RequestedDevice::default() }]
    };
    let region_limit = Resources {
        cpu: number("cpu"),
        memory_mb: number("mem"),
        cores: number("cores"),
        devices: words.get("device").map(device),
        ..Resources::default()
    };
    let region = Str::from("global");
    let limit = QuotaLimit {
        region: region.clone(),
        region_limit: Some(region_limit),
        allocations_limit: Some(number("allocs")),
        ..QuotaLimit::default()
    };
    let quota = QuotaSpec { name: "gold".into(), limits: Some(vec![limit]), ..QuotaSpec::default() };
    let namespace = Namespace { name: "default".into(), quota: "gold".into(), ..Namespace::default() };
    (UpsertQuotaSpecs { quotas: vec![quota], region }, UpsertNamespaces { namespaces: vec![namespace] })
}
