//! Resources of a node: those that allocations were granted, those that they use, and those that the host uses.

use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use crate::client::{Client, text};
use crate::jobs::lists::items;
use crate::layout::{block, list, section};
use crate::values::{megahertz, percent, size};

/// Number of allocations whose statistics are asked for at once.
const STATS_AT_ONCE: usize = 16;

/// A resource of the node without what is reserved for the host.
fn free(node: &Value, group: &str, key: &str) -> u64 {
    let of = |part: &str| node[part][group][key].as_u64().unwrap_or(0);
    of("NodeResources").saturating_sub(of("ReservedResources"))
}

/// Prints the resources that allocations were granted.
pub(super) fn allocated(node: &Value, allocs: &[Value]) {
    let (mut used_cpu, mut used_memory, mut used_disk) = (0, 0, 0);
    let live = allocs.iter().filter(|alloc| !matches!(text(&alloc["ClientStatus"]), "complete" | "failed" | "lost"));
    for alloc in live {
        let granted = &alloc["AllocatedResources"];
        used_disk += granted["Shared"]["DiskMB"].as_u64().unwrap_or(0);
        for (_, task) in granted["Tasks"].as_object().into_iter().flatten() {
            used_cpu += task["Cpu"]["CpuShares"].as_u64().unwrap_or(0);
            used_memory += task["Memory"]["MemoryMB"].as_u64().unwrap_or(0);
        }
    }
    let of = |used: u64, all: u64| format!("{}/{}", size(used << 20), size(all << 20));
    let row = vec![
        format!("{used_cpu}/{} MHz", free(node, "Cpu", "CpuShares")),
        of(used_memory, free(node, "Memory", "MemoryMB")),
        of(used_disk, free(node, "Disk", "DiskMB")),
    ];
    section("Allocated Resources", &list(&["CPU", "Memory", "Disk"], &[row]));
}

/// Resources that allocations use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Used {
    /// In MHz.
    cpu: f64,
    /// In bytes.
    memory: u64,
}

/// Resources that the running allocations use together. One whose node does not answer counts as nothing.
pub(super) async fn of_allocs(client: &Client, allocs: &[Value]) -> Used {
    let running = allocs.iter().filter(|alloc| text(&alloc["ClientStatus"]) == "running");
    let mut answers = stream::iter(running.map(|alloc| of_alloc(client, alloc))).buffer_unordered(STATS_AT_ONCE);
    let mut all = Used::default();
    while let Some(used) = answers.next().await {
        all.cpu += used.cpu;
        all.memory = all.memory.saturating_add(used.memory);
    }
    all
}

async fn of_alloc(client: &Client, alloc: &Value) -> Used {
    let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
    let path = format!("/v1/client/allocation/{}/stats", text(&alloc["ID"]));
    client.get(&path).await.map_or_else(|_| Used::default(), |stats| used(&stats))
}

/// Resources in the statistics of an allocation.
fn used(stats: &Value) -> Used {
    let (cpu, memory) = (&stats["ResourceUsage"]["CpuStats"], &stats["ResourceUsage"]["MemoryStats"]);
    let bytes = |key: &str| memory[key].as_u64().filter(|bytes| *bytes > 0);
    Used {
        cpu: cpu["TotalTicks"].as_f64().unwrap_or(0.0),
        // A driver that does not measure the resident set measures the usage of the control group.
        memory: bytes("RSS").or_else(|| bytes("Usage")).unwrap_or(0),
    }
}

/// Prints the resources that allocations use.
pub(super) fn allocs(node: &Value, used: Used) {
    let row = vec![
        format!("{:.0}/{} MHz", used.cpu, free(node, "Cpu", "CpuShares")),
        format!("{}/{}", size(used.memory), size(free(node, "Memory", "MemoryMB") << 20)),
    ];
    section("Allocation Resource Utilization", &list(&["CPU", "Memory"], &[row]));
}

/// Prints the resources that the host uses.
pub(super) fn host(node: &Value, stats: &Value) {
    let ticks = stats["CPUTicksConsumed"].as_f64().unwrap_or(0.0);
    let all = node["NodeResources"]["Cpu"]["CpuShares"].as_f64().unwrap_or(0.0);
    let memory = &stats["Memory"];
    let row =
        vec![format!("{ticks:.0}/{}", megahertz(all)), of_bytes(&memory["Used"], &memory["Total"]), disk(node, stats)];
    section("Host Resource Utilization", &list(&["CPU", "Memory", "Disk"], &[row]));
}

fn of_bytes(used: &Value, all: &Value) -> String {
    format!("{}/{}", size(used.as_u64().unwrap_or(0)), size(all.as_u64().unwrap_or(0)))
}

/// Use of the disk that holds the allocations; the disk's device in parentheses if its use is not measured.
fn disk(node: &Value, stats: &Value) -> String {
    let device = text(&node["Attributes"]["unique.storage.volume"]);
    let measured = |disk: &Value| disk["Size"].as_u64().is_some_and(|size| size > 0);
    let own = Some(&stats["AllocDirStats"]).filter(|disk| measured(disk));
    let disks = items(&stats["DiskStats"]);
    match own.or_else(|| disks.iter().find(|disk| text(&disk["Device"]) == device && measured(disk))) {
        Some(disk) => of_bytes(&disk["Used"], &disk["Size"]),
        None if device.is_empty() => String::new(),
        None => format!("({device})"),
    }
}

/// Prints the measurements of the host: processors, memory, disks.
pub(super) fn detailed(stats: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let cpus: Vec<String> = items(&stats["CPU"])
        .iter()
        .map(|cpu| {
            block(&[
                ("CPU", text(&cpu["CPU"]).to_owned()),
                ("User", percent(number(&cpu["User"]))),
                ("System", percent(number(&cpu["System"]))),
                ("Idle", percent(number(&cpu["Idle"]))),
            ])
        })
        .collect();
    section("CPU Stats", &cpus.join("\n\n"));
    let memory =
        ["Total", "Available", "Used", "Free"].map(|key| (key, size(stats["Memory"][key].as_u64().unwrap_or(0))));
    section("Memory Stats", &block(&memory));
    let disks: Vec<String> = items(&stats["DiskStats"])
        .iter()
        .map(|disk| {
            let bytes = |key: &str| size(disk[key].as_u64().unwrap_or(0));
            block(&[
                ("Device", text(&disk["Device"]).to_owned()),
                ("MountPoint", text(&disk["Mountpoint"]).to_owned()),
                ("Size", bytes("Size")),
                ("Used", bytes("Used")),
                ("Available", bytes("Available")),
                ("Used Percent", percent(number(&disk["UsedPercent"]))),
                ("Inodes Percent", percent(number(&disk["InodesUsedPercent"]))),
            ])
        })
        .collect();
    section("Disk Stats", &disks.join("\n\n"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_of_an_alloc_is_its_resident_set_or_else_its_usage() {
        let stats =
            |memory: Value| json!({ "ResourceUsage": { "CpuStats": { "TotalTicks": 12.5 }, "MemoryStats": memory } });
        assert_eq!(used(&stats(json!({ "RSS": 7, "Usage": 9 }))), Used { cpu: 12.5, memory: 7 });
        assert_eq!(used(&stats(json!({ "RSS": 0, "Usage": 9 }))), Used { cpu: 12.5, memory: 9 });
        assert_eq!(used(&json!({ "ResourceUsage": null })), Used::default());
    }

    #[test]
    fn disk_that_is_not_measured_is_named() {
        let node = json!({ "Attributes": { "unique.storage.volume": "/dev/sda1" } });
        let disks = json!([{ "Device": "/dev/sda1", "Size": 2048, "Used": 1024 }]);
        let own = json!({ "Device": "/dev/sdb1", "Size": 8192, "Used": 4096 });
        assert_eq!(disk(&node, &json!({ "AllocDirStats": own, "DiskStats": disks })), "4.0 KiB/8.0 KiB");
        assert_eq!(disk(&node, &json!({ "AllocDirStats": null, "DiskStats": disks })), "1.0 KiB/2.0 KiB");
        assert_eq!(disk(&node, &json!({ "AllocDirStats": null, "DiskStats": [] })), "(/dev/sda1)");
        assert_eq!(disk(&json!({}), &json!({})), "");
    }
}
