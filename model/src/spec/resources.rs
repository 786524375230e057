//! Resources and networks as submitted.

use serde::{Deserialize, Serialize};

use super::{Affinity, affinity_rows, canonicalize_affinities, non_empty, rows};
use crate::{Constraint, DnsConfig, Port, Str};

/// `Resources` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Resources {
    #[serde(rename = "CPU")]
    pub cpu: Option<i64>,
    pub cores: Option<i64>,
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: Option<i64>,
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
    pub networks: Option<Vec<NetworkResource>>,
    pub devices: Option<Vec<RequestedDevice>>,
    #[serde(rename = "IOPS")]
    pub iops: Option<i64>,
}

/// `RequestedDevice` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RequestedDevice {
    pub name: Str,
    pub count: Option<u64>,
    pub constraints: Option<Vec<Constraint>>,
    pub affinities: Option<Vec<Affinity>>,
}

/// `NetworkResource` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkResource {
    pub mode: Str,
    pub device: Str,
    #[serde(rename = "CIDR")]
    pub cidr: Str,
    #[serde(rename = "IP")]
    pub ip: Str,
    #[serde(rename = "DNS")]
    pub dns: Option<DnsConfig>,
    pub reserved_ports: Option<Vec<Port>>,
    pub dynamic_ports: Option<Vec<Port>>,
    pub hostname: Str,
    #[serde(rename = "MBits")]
    pub mbits: Option<i64>,
}

/// CPU share in MHz of a task that requests neither MHz nor cores.
const DEFAULT_CPU: i64 = 100;
/// Memory in MiB of a task that requests none.
const DEFAULT_MEMORY_MB: i64 = 300;

impl Resources {
    pub(crate) fn canonicalize(&mut self) {
        if self.cores.is_none() {
            self.cores = Some(0);
            self.cpu.get_or_insert(DEFAULT_CPU);
        }
        self.cpu.get_or_insert(0);
        self.memory_mb.get_or_insert(DEFAULT_MEMORY_MB);
        for device in self.devices.iter_mut().flatten() {
            device.count.get_or_insert(1);
            canonicalize_affinities(&mut device.affinities);
        }
    }

    pub(crate) fn into_row(self) -> crate::Resources {
        crate::Resources {
            cpu: self.cpu.unwrap_or_default(),
            cores: self.cores.unwrap_or_default(),
            memory_mb: self.memory_mb.unwrap_or_default(),
            memory_max_mb: self.memory_max_mb.unwrap_or_default(),
            disk_mb: self.disk_mb.unwrap_or_default(),
            iops: self.iops.unwrap_or_default(),
            networks: rows(self.networks, NetworkResource::into_row),
            devices: rows(self.devices, |device| crate::RequestedDevice {
                name: device.name,
                count: device.count.unwrap_or_default(),
                constraints: non_empty(device.constraints),
                affinities: affinity_rows(device.affinities),
            }),
        }
    }
}

impl NetworkResource {
    pub(crate) fn into_row(self) -> crate::NetworkResource {
        crate::NetworkResource {
            mode: self.mode,
            device: self.device,
            cidr: self.cidr,
            ip: self.ip,
            hostname: self.hostname,
            mbits: self.mbits.unwrap_or_default(),
            dns: self.dns,
            reserved_ports: non_empty(self.reserved_ports),
            dynamic_ports: non_empty(self.dynamic_ports),
        }
    }
}
