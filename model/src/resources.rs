//! Resources: requested by tasks, and granted to allocations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::empty::is_empty;
use crate::{Affinity, Constraint, Str, TaskLifecycleConfig};

/// Resources that a task requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Resources {
    /// CPU shares in MHz; derived from `cores` if these are given.
    #[serde(rename = "CPU")]
    pub cpu: i64,
    /// Number of reserved cores; 0: none.
    pub cores: i64,
    /// In MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
    /// Limit with memory oversubscription, in MiB; 0: `memory_mb`.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: i64,
    /// In MiB; unused, the disk belongs to the group.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
    /// Unused.
    #[serde(rename = "IOPS")]
    pub iops: i64,
    pub networks: Option<Vec<NetworkResource>>,
    pub devices: Option<Vec<RequestedDevice>>,
}

/// A number of devices with constraints and affinities.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RequestedDevice {
    pub name: Str,
    pub count: u64,
    pub constraints: Option<Vec<Constraint>>,
    pub affinities: Option<Vec<Affinity>>,
}

/// Network mode and ports of a group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkResource {
    pub mode: Str,
    pub device: Str,
    #[serde(rename = "CIDR")]
    pub cidr: Str,
    #[serde(rename = "IP")]
    pub ip: Str,
    #[serde(skip_serializing_if = "is_empty")]
    pub hostname: Str,
    /// Unused: bandwidth is not scheduled.
    #[serde(rename = "MBits")]
    pub mbits: i64,
    #[serde(rename = "DNS")]
    pub dns: Option<DnsConfig>,
    pub reserved_ports: Option<Vec<Port>>,
    pub dynamic_ports: Option<Vec<Port>>,
}

/// DNS settings in the network namespace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DnsConfig {
    pub servers: Option<Vec<Str>>,
    pub searches: Option<Vec<Str>>,
    pub options: Option<Vec<Str>>,
}

/// A labelled static or dynamic port.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Port {
    pub label: Str,
    /// Number of a static port, or of the granted one; 0: not chosen yet.
    pub value: i64,
    /// Port inside the network namespace; 0: the same number, -1: the same as the dynamic port.
    pub to: i64,
    pub host_network: Str,
}

/// Resources granted to an allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedResources {
    pub tasks: Option<BTreeMap<Str, AllocatedTaskResources>>,
    pub task_lifecycles: Option<BTreeMap<Str, Option<TaskLifecycleConfig>>>,
    pub shared: AllocatedSharedResources,
}

/// Resources granted to one task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedTaskResources {
    pub cpu: AllocatedCpuResources,
    pub memory: AllocatedMemoryResources,
    pub networks: Option<Vec<NetworkResource>>,
    pub devices: Option<Vec<AllocatedDeviceResource>>,
}

/// Granted CPU shares in MHz and cores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedCpuResources {
    /// In MHz.
    pub cpu_shares: i64,
    /// Numbers of the cores.
    pub reserved_cores: Option<Vec<u64>>,
}

/// Granted memory in MiB.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedMemoryResources {
    /// In MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
    /// In MiB; 0: `memory_mb`.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: i64,
}

/// Granted devices of one group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedDeviceResource {
    pub vendor: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub name: Str,
    #[serde(rename = "DeviceIDs")]
    pub device_ids: Option<Vec<Str>>,
}

/// Resources that the tasks of an allocation share.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedSharedResources {
    pub networks: Option<Vec<NetworkResource>>,
    /// In MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
    pub ports: Option<Vec<AllocatedPortMapping>>,
}

/// A port of the node mapped into the allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedPortMapping {
    pub label: Str,
    /// Port of the node.
    pub value: i64,
    /// Port inside the network namespace.
    pub to: i64,
    #[serde(rename = "HostIP")]
    pub host_ip: Str,
}
