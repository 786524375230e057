//! Quotas: limits on what the allocations and variables of namespaces use together, and the amounts used.
//! `projections` keeps the amounts, the scheduler and the plan applier compare them with the limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AllocatedResources, Allocation, Blob, QuotaName, Resources, Str, TaskPhase};

/// Bytes in the unit of [`QuotaLimit::variables_limit`].
const MIB: i64 = 1 << 20;

/// A quota: limits that namespaces share, at most one in each region.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct QuotaSpec {
    pub name: QuotaName,
    pub description: Str,
    pub limits: Option<Vec<QuotaLimit>>,
    pub hash: Option<Blob>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// The limits in one region. 0 or nothing is no limit, and a negative number allows nothing.
/// A device is the exception: its count of 0 allows none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct QuotaLimit {
    pub region: Str,
    /// Limits on CPU (MHz), cores, memory and maximal memory (MiB), and devices by name.
    pub region_limit: Option<Resources>,
    /// Limit on the size of all variables, encrypted, in MiB.
    pub variables_limit: Option<i64>,
    /// Limit on the number of allocations. Nomad has no such limit.
    pub allocations_limit: Option<i64>,
    pub hash: Option<Blob>,
}

/// Amounts that the namespaces of a quota use in the region of the servers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct QuotaUsage {
    pub name: QuotaName,
    /// The region of the servers, which chooses the limit.
    pub region: Str,
    pub used: QuotaUsed,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Amounts that allocations and variables use. Sums wrap around, so that what was added can always be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct QuotaUsed {
    /// Number of allocations.
    pub allocations: i64,
    /// CPU shares, in MHz.
    pub cpu: i64,
    /// Reserved cores.
    pub cores: i64,
    /// Reserved memory, in MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
    /// Memory that tasks may use at most, in MiB; a task without a maximum counts with its reserved memory.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: i64,
    /// Number of devices by `vendor/type/name`; none is 0.
    pub devices: BTreeMap<Str, i64>,
    /// Size of the encrypted variables, in bytes.
    pub variables_bytes: i64,
}

/// A dimension that a quota can limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension<'a> {
    Cpu,
    Cores,
    Memory,
    MemoryMax,
    /// Devices of this `type`, `vendor/type` or `vendor/type/name`.
    Device(&'a str),
    Allocations,
    Variables,
}

impl Dimension<'_> {
    fn name(self) -> String {
        match self {
            Self::Cpu => "cpu".to_owned(),
            Self::Cores => "cores".to_owned(),
            Self::Memory => "memory".to_owned(),
            Self::MemoryMax => "memory_max".to_owned(),
            Self::Device(name) => format!("device {name}"),
            Self::Allocations => "allocations".to_owned(),
            Self::Variables => "variables bytes".to_owned(),
        }
    }
}

impl QuotaSpec {
    /// The limit in a region.
    pub fn limit(&self, region: &str) -> Option<&QuotaLimit> {
        self.limits.iter().flatten().find(|limit| limit.region == region)
    }

    /// Whether some dimension has a higher limit than in `before`, or none any more.
    pub fn allows_more_than(&self, before: &QuotaSpec) -> bool {
        before.limits.iter().flatten().any(|old| {
            let new = self.limit(&old.region);
            let bound_now = |dimension| new.and_then(|new| new.bounds().find(|(other, _)| *other == dimension));
            old.bounds().any(|(dimension, bound)| bound_now(dimension).is_none_or(|(_, now)| now > bound))
        })
    }
}

impl QuotaLimit {
    /// The limited dimensions, each with its bound.
    fn bounds(&self) -> impl Iterator<Item = (Dimension<'_>, i64)> {
        let bound = |limit: i64| (limit != 0).then_some(limit.max(0));
        let sized = |limit: Option<i64>| limit.and_then(bound);
        let resources = self.region_limit.as_ref();
        let of = |get: fn(&Resources) -> i64| sized(resources.map(get));
        let fixed = [
            (Dimension::Cpu, of(|limit| limit.cpu)),
            (Dimension::Cores, of(|limit| limit.cores)),
            (Dimension::Memory, of(|limit| limit.memory_mb)),
            (Dimension::MemoryMax, of(|limit| limit.memory_max_mb)),
            (Dimension::Allocations, sized(self.allocations_limit)),
            (Dimension::Variables, sized(self.variables_limit).map(|mib| mib.saturating_mul(MIB))),
        ];
        let devices = resources.and_then(|limit| limit.devices.as_ref()).into_iter().flatten();
        let devices =
            devices.map(|device| (Dimension::Device(&device.name), i64::try_from(device.count).unwrap_or(i64::MAX)));
        fixed.into_iter().filter_map(|(dimension, bound)| Some((dimension, bound?))).chain(devices)
    }

    /// The dimensions in which `after` is above the limit and above `before`, as texts with the numbers. Amounts above
    /// the limit that do not grow are no reason to refuse anything: the limit may have been lowered.
    pub fn exceeded(&self, before: &QuotaUsed, after: &QuotaUsed) -> Vec<Str> {
        let over = self.bounds().filter_map(|(dimension, limit)| {
            let needed = after.amount(dimension);
            let grows = needed > before.amount(dimension);
            (grows && needed > limit)
                .then(|| format!("{} exhausted ({needed} needed > {limit} limit)", dimension.name()).into())
        });
        over.collect()
    }

    /// The used amounts in the form of this limit: each device that the limit names, and whole MiB of variables.
    #[must_use]
    pub fn filled_with(&self, used: &QuotaUsed) -> QuotaLimit {
        let mut filled = self.clone();
        let resources = filled.region_limit.get_or_insert_default();
        resources.cpu = used.cpu;
        resources.cores = used.cores;
        resources.memory_mb = used.memory_mb;
        resources.memory_max_mb = used.memory_max_mb;
        for device in resources.devices.iter_mut().flatten() {
            device.count = used.amount(Dimension::Device(&device.name)).try_into().unwrap_or_default();
        }
        filled.variables_limit = Some(used.variables_bytes.div_euclid(MIB) + i64::from(used.variables_bytes % MIB > 0));
        filled.allocations_limit = Some(used.allocations);
        filled
    }
}

impl QuotaUsed {
    /// Amounts that an allocation counts with; nothing once it is terminal.
    pub fn of(alloc: &Allocation) -> Self {
        match &alloc.allocated_resources {
            _ if alloc.terminal() => Self::default(),
            Some(resources) => Self::of_resources(resources),
            None => Self { allocations: 1, ..Self::default() },
        }
    }

    /// Amounts that an allocation with these resources counts with: the most that its tasks use at the same time.
    pub fn of_resources(resources: &AllocatedResources) -> Self {
        let mut phases: [Self; 4] = Default::default();
        let lifecycles = resources.task_lifecycles.as_ref();
        for (name, task) in resources.tasks.iter().flatten() {
            let lifecycle = lifecycles.and_then(|lifecycles| lifecycles.get(name)).and_then(Option::as_ref);
            let memory = &task.memory;
            let devices = task.devices.iter().flatten().map(|device| {
                let ids = device.device_ids.as_ref().map_or(0, Vec::len);
                (Str::from(format!("{}/{}/{}", device.vendor, device.kind, device.name)), ids as i64)
            });
            let asked = Self {
                cpu: task.cpu.cpu_shares,
                cores: task.cpu.reserved_cores.as_ref().map_or(0, Vec::len) as i64,
                memory_mb: memory.memory_mb,
                memory_max_mb: if memory.memory_max_mb == 0 { memory.memory_mb } else { memory.memory_max_mb },
                devices: devices.collect(),
                ..Self::default()
            };
            phases[TaskPhase::of(lifecycle) as usize].add(&asked);
        }
        let [mut before, mut main, after, sidecars] = phases;
        before.add(&sidecars);
        main.add(&sidecars);
        Self { allocations: 1, ..main.most(before).most(after) }
    }

    /// Whether nothing is used.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the amounts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::wrapping_add);
    }

    /// Takes the amounts of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::wrapping_sub);
    }

    /// Whether some amount is smaller than in `before`.
    pub fn is_less_than(&self, before: &Self) -> bool {
        let kept = self.clone().most(before.clone());
        kept != *self
    }

    fn most(mut self, other: Self) -> Self {
        self.combine(&other, i64::max);
        self
    }

    fn combine(&mut self, other: &Self, with: fn(i64, i64) -> i64) {
        let Self { allocations, cpu, cores, memory_mb, memory_max_mb, devices, variables_bytes } = other;
        self.allocations = with(self.allocations, *allocations);
        self.cpu = with(self.cpu, *cpu);
        self.cores = with(self.cores, *cores);
        self.memory_mb = with(self.memory_mb, *memory_mb);
        self.memory_max_mb = with(self.memory_max_mb, *memory_max_mb);
        self.variables_bytes = with(self.variables_bytes, *variables_bytes);
        for (name, count) in devices {
            let known = self.devices.entry(name.clone()).or_insert(0);
            *known = with(*known, *count);
        }
        self.devices.retain(|_, count| *count != 0);
    }

    fn amount(&self, dimension: Dimension<'_>) -> i64 {
        match dimension {
            Dimension::Cpu => self.cpu,
            Dimension::Cores => self.cores,
            Dimension::Memory => self.memory_mb,
            Dimension::MemoryMax => self.memory_max_mb,
            Dimension::Allocations => self.allocations,
            Dimension::Variables => self.variables_bytes,
            Dimension::Device(wanted) => {
                let matching = self.devices.iter().filter(|(name, _)| is_device(wanted, name));
                matching.fold(0, |sum, (_, count)| sum.wrapping_add(*count))
            }
        }
    }
}

/// Whether a device `vendor/type/name` is one of `wanted`, which is `type`, `vendor/type` or `vendor/type/name`.
fn is_device(wanted: &str, device: &str) -> bool {
    let has: Vec<&str> = device.splitn(3, '/').collect();
    let wanted: Vec<&str> = wanted.splitn(3, '/').collect();
    match wanted[..] {
        [kind] => has.get(1) == Some(&kind),
        _ => has.starts_with(&wanted),
    }
}

#[cfg(test)]
mod tests;
