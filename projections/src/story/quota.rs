//! Story words for quotas and for the resources of allocs.

use std::sync::Arc;

use songline_commands::{Command, DeleteQuotaSpecs, UpsertQuotaSpecs};
use songline_model::{
    AllocatedDeviceResource, AllocatedResources, AllocatedTaskResources, QuotaLimit, QuotaName, QuotaSpec, QuotaUsage,
    RequestedDevice, Resources,
};

use super::Words;
use crate::State;

const REGION: &str = "global";

/// `quota upsert gold cpu=500 memory=100 devices=nvidia/gpu:2 allocs=3 variables=1 region=eu`, `quota delete gold`.
pub(super) fn command(words: &Words<'_>) -> Command {
    let number = |name| words.get(name).map(|text| text.parse::<i64>().expect("a number"));
    if words.plain[1] == "delete" {
        return DeleteQuotaSpecs { names: words.plain[2..].iter().map(QuotaName::from).collect() }.into();
    }
    let device = |text: &str| {
        let (name, count) = text.split_once(':').expect("name:count");
        RequestedDevice { name: name.into(), count: count.parse().expect("a number"), ..RequestedDevice::default() }
    };
    let resources = Resources {
        cpu: number("cpu").unwrap_or(0),
        cores: number("cores").unwrap_or(0),
        memory_mb: number("memory").unwrap_or(0),
        memory_max_mb: number("memory-max").unwrap_or(0),
        devices: words.get("devices").map(|_| words.list("devices").map(device).collect()),
        ..Resources::default()
    };
    let limit = QuotaLimit {
        region: words.get("region").unwrap_or(REGION).into(),
        region_limit: Some(resources),
        variables_limit: number("variables"),
        allocations_limit: number("allocs"),
        hash: None,
    };
    let quota = QuotaSpec { name: words.plain[2].into(), limits: Some(vec![limit]), ..QuotaSpec::default() };
    UpsertQuotaSpecs { quotas: vec![quota], region: REGION.into() }.into()
}

/// The resources of a placed alloc with one task: `cpu=200 cores=2 memory=64 memory-max=128 gpus=1`.
pub(super) fn resources(words: &Words<'_>) -> Option<Arc<AllocatedResources>> {
    ["cpu", "cores", "memory", "memory-max", "gpus"].iter().find_map(|name| words.get(name))?;
    let number = |name| words.number(name).unwrap_or(0);
    let ids = |count: u64| (0..count).map(|id| format!("{id}").into()).collect();
    let mut task = AllocatedTaskResources::default();
    task.cpu.cpu_shares = number("cpu").cast_signed();
    task.cpu.reserved_cores = words.number("cores").map(|count| (0..count).collect());
    task.memory.memory_mb = number("memory").cast_signed();
    task.memory.memory_max_mb = number("memory-max").cast_signed();
    task.devices = words.number("gpus").map(|count| {
        vec![AllocatedDeviceResource {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            name: "t4".into(),
            device_ids: Some(ids(count)),
        }]
    });
    Some(Arc::new(AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() }))
}

pub(super) fn show(state: &State, what: &str) -> String {
    state.quota_usage(what).map_or_else(|| format!("usage {what}: none"), |row| show_usage(row))
}

fn show_usage(row: &QuotaUsage) -> String {
    let used = &row.used;
    let amounts = [
        ("allocs", used.allocations),
        ("cpu", used.cpu),
        ("cores", used.cores),
        ("memory", used.memory_mb),
        ("memory-max", used.memory_max_mb),
        ("bytes", used.variables_bytes),
    ];
    let devices = used.devices.iter().map(|(name, count)| (name.as_str(), *count));
    let amounts: Vec<String> = amounts
        .into_iter()
        .chain(devices)
        .filter(|(_, amount)| *amount != 0)
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    format!("usage {}: [{}] create={} modify={}", row.name, amounts.join(" "), row.create_index, row.modify_index)
}
