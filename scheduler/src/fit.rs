//! Whether allocations fit on a node: sums of CPU, memory and disk against the node's capacity, reserved cores,
//! ports (`network`) and devices (`devices`).

pub mod cores;

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{AllocatedResources, Allocation, Node, Resources, Str, TaskLifecycleConfig};

use crate::devices::{self, Held};
use crate::network::Ports;

/// An amount of the resources that every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// CPU shares, in MHz.
    pub cpu: i64,
    /// Memory in MiB. Memory above the reservation (oversubscription) does not count.
    pub memory: i64,
    /// Disk in MiB.
    pub disk: i64,
}

impl Amount {
    /// The sum of both amounts.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount { cpu: self.cpu + other.cpu, memory: self.memory + other.memory, disk: self.disk + other.disk }
    }

    /// The amount left after `other`; may be negative.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        Amount { cpu: self.cpu - other.cpu, memory: self.memory - other.memory, disk: self.disk - other.disk }
    }

    fn max(self, other: Amount) -> Amount {
        Amount { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory), disk: self.disk.max(other.disk) }
    }

    /// Name of the first dimension in which `self` exceeds `capacity`.
    pub fn exceeds(self, capacity: Amount) -> Option<&'static str> {
        if self.cpu > capacity.cpu {
            Some("cpu")
        } else if self.memory > capacity.memory {
            Some("memory")
        } else if self.disk > capacity.disk {
            Some("disk")
        } else {
            None
        }
    }
}

/// Amount that a node has for allocations: its resources minus its reserved ones.
pub fn capacity(node: &Node) -> Amount {
    let whole = match (&node.node_resources, &node.resources) {
        (Some(has), _) => Amount { cpu: has.cpu.cpu_shares, memory: has.memory.memory_mb, disk: has.disk.disk_mb },
        (None, Some(old)) => old_form(old),
        (None, None) => Amount::default(),
    };
    let kept = match (&node.reserved_resources, &node.reserved) {
        (Some(keeps), _) => {
            Amount { cpu: keeps.cpu.cpu_shares, memory: keeps.memory.memory_mb, disk: keeps.disk.disk_mb }
        }
        (None, Some(old)) => old_form(old),
        (None, None) => Amount::default(),
    };
    whole.minus(kept)
}

fn old_form(resources: &Resources) -> Amount {
    Amount { cpu: resources.cpu, memory: resources.memory_mb, disk: resources.disk_mb }
}

/// Amount that an allocation uses on its node.
pub fn used_by(alloc: &Allocation) -> Amount {
    alloc.allocated_resources.as_deref().map(asked).unwrap_or_default()
}

/// Peak amount of these resources, given that not all tasks run at the same time. The phases are prestart tasks, main
/// tasks together with poststart tasks, and poststop tasks. Prestart sidecars count in the first two phases.
pub fn asked(resources: &AllocatedResources) -> Amount {
    peak(resources, |_, _| ())
}

/// Peak amount as [`asked`] sums it, after `change` has changed the amount of each task.
pub fn peak(resources: &AllocatedResources, change: impl Fn(&Str, &mut Amount)) -> Amount {
    let (mut before, mut main, mut after, mut sidecars) = <(Amount, Amount, Amount, Amount)>::default();
    let lifecycles = resources.task_lifecycles.as_ref();
    for (name, task) in resources.tasks.iter().flatten() {
        let mut amount = Amount { cpu: task.cpu.cpu_shares, memory: task.memory.memory_mb, disk: 0 };
        change(name, &mut amount);
        let phase = match lifecycles.and_then(|lifecycles| lifecycles.get(name)).and_then(Option::as_ref) {
            Some(TaskLifecycleConfig { hook, sidecar: true }) if hook == "prestart" => &mut sidecars,
            Some(TaskLifecycleConfig { hook, sidecar: false }) if hook == "prestart" => &mut before,
            Some(TaskLifecycleConfig { hook, .. }) if hook == "poststop" => &mut after,
            Some(_) | None => &mut main,
        };
        *phase = phase.plus(amount);
    }
    let mut most = main.plus(sidecars).max(before.plus(sidecars)).max(after);
    most.disk = resources.shared.disk_mb;
    most
}

/// The total amount, if these allocations fit on the node together. `Err` names the exhausted dimension or the port
/// collision. Allocations with a terminal client status do not count.
pub fn allocs_fit<'a>(node: &Node, allocs: impl IntoIterator<Item = &'a Allocation>) -> Result<Amount, String> {
    let mut used = Amount::default();
    let mut used_cores = BTreeSet::new();
    let mut shared_core = false;
    let mut held = Held::default();
    let mut shared_device = false;
    let mut with_ports = Vec::new();
    for alloc in allocs {
        if alloc.client_terminal() {
            continue;
        }
        used = used.plus(used_by(alloc));
        if let Some(resources) = alloc.allocated_resources.as_deref() {
            for core in cores::reserved(resources) {
                shared_core |= !used_cores.insert(core);
            }
            shared_device |= !held.take(resources);
        }
        if crate::network::has_ports(alloc) {
            with_ports.push(alloc);
        }
    }
    if shared_core {
        return Err(cores::DIMENSION.to_owned());
    }
    let capacity = capacity(node);
    if used.cpu <= capacity.cpu && !used_cores.is_empty() && !used_cores.is_subset(&cores::reservable(node)) {
        return Err(cores::DIMENSION.to_owned());
    }
    if let Some(dimension) = used.exceeds(capacity) {
        return Err(dimension.to_owned());
    }
    if !with_ports.is_empty() {
        let mut ports = Ports::of_node(node).map_err(|port| format!("reserved node port collision: {port}"))?;
        for alloc in with_ports {
            ports.take(alloc).map_err(|port| format!("reserved alloc port collision: {port}"))?;
        }
    }
    if shared_device { Err(devices::OVERSUBSCRIBED.to_owned()) } else { Ok(used) }
}

/// Resources and lifecycles of a group's tasks, as an allocation records them.
pub fn resources_of_group(group: &songline_model::TaskGroup, oversubscribe_memory: bool) -> AllocatedResources {
    let mut tasks = BTreeMap::new();
    let mut lifecycles = BTreeMap::new();
    for task in group.tasks.iter().flatten() {
        let asks = task.resources.clone().unwrap_or_default();
        let mut gets = songline_model::AllocatedTaskResources::default();
        gets.cpu.cpu_shares = asks.cpu;
        gets.memory.memory_mb = asks.memory_mb;
        if oversubscribe_memory {
            gets.memory.memory_max_mb = asks.memory_max_mb;
        }
        tasks.insert(task.name.clone(), gets);
        lifecycles.insert(task.name.clone(), task.lifecycle.clone());
    }
    let mut resources =
        AllocatedResources { tasks: Some(tasks), task_lifecycles: Some(lifecycles), ..Default::default() };
    resources.shared.disk_mb = group.ephemeral_disk.as_ref().map_or(0, |disk| disk.size_mb);
    resources
}

#[cfg(test)]
mod tests;
