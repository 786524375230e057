//! Resources of a node, and the part of them reserved for the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NetworkResource, Str};

/// CPU, memory, disk, networks and devices of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeResources {
    pub cpu: NodeCpuResources,
    pub memory: NodeMemoryResources,
    pub disk: NodeDiskResources,
    pub devices: Option<Vec<NodeDeviceResource>>,
    pub node_networks: Option<Vec<NodeNetworkResource>>,
    pub networks: Option<Vec<NetworkResource>>,
    pub min_dynamic_port: i64,
    pub max_dynamic_port: i64,
}

/// CPU shares in MHz and cores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeCpuResources {
    /// In MHz, of all cores together.
    pub cpu_shares: i64,
    pub total_cpu_cores: u64,
    /// Numbers of the cores that tasks may reserve.
    pub reservable_cpu_cores: Option<Vec<u64>>,
}

/// Memory in MiB.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeMemoryResources {
    /// In MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
}

/// Disk space in MiB.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDiskResources {
    /// In MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
}

/// A group of equal devices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDeviceResource {
    pub vendor: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub name: Str,
    pub instances: Option<Vec<NodeDevice>>,
    pub attributes: Option<BTreeMap<Str, DeviceAttribute>>,
}

/// One device with its health.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDevice {
    #[serde(rename = "ID")]
    pub id: Str,
    pub healthy: bool,
    pub health_description: Str,
    pub locality: Option<NodeDeviceLocality>,
}

/// Position of a device in the machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDeviceLocality {
    #[serde(rename = "PciBusID")]
    pub pci_bus_id: Str,
}

/// A typed value of a device attribute with its unit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeviceAttribute {
    pub float: Option<f64>,
    pub int: Option<i64>,
    pub string: Option<Str>,
    pub bool: Option<bool>,
    pub unit: Str,
}

/// A network device with its addresses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeNetworkResource {
    pub mode: Str,
    pub device: Str,
    pub mac_address: Str,
    /// In MBit/s.
    pub speed: i64,
    pub addresses: Option<Vec<NodeNetworkAddress>>,
}

/// An address with its alias and reserved ports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeNetworkAddress {
    pub family: Str,
    pub alias: Str,
    pub address: Str,
    pub reserved_ports: Str,
    pub gateway: Str,
}

/// Resources that allocations may not use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedResources {
    pub cpu: NodeReservedCpuResources,
    pub memory: NodeReservedMemoryResources,
    pub disk: NodeReservedDiskResources,
    pub networks: NodeReservedNetworkResources,
}

/// Reserved CPU shares and cores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedCpuResources {
    /// In MHz.
    pub cpu_shares: i64,
    pub reserved_cpu_cores: Option<Vec<u64>>,
}

/// Reserved memory in MiB.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedMemoryResources {
    /// In MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
}

/// Reserved disk space in MiB.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedDiskResources {
    /// In MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
}

/// Reserved ports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedNetworkResources {
    pub reserved_host_ports: Str,
}
