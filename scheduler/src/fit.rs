//! Whether allocations fit on a node: the sums of what they use and what the node has. Ports are in `network`, devices nowhere yet.

use std::collections::BTreeMap;

use songline_model::{AllocatedResources, Allocation, Node, Resources, TaskLifecycleConfig};

use crate::network::Ports;

/// An amount of what every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// CPU shares, in MHz.
    pub cpu: i64,
    /// Memory in MiB. What a task may use on top when memory is oversubscribed does not count.
    pub memory: i64,
    /// Disk in MiB.
    pub disk: i64,
}

impl Amount {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount { cpu: self.cpu + other.cpu, memory: self.memory + other.memory, disk: self.disk + other.disk }
    }

    /// What is left when `other` is taken away; may be negative.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        Amount { cpu: self.cpu - other.cpu, memory: self.memory - other.memory, disk: self.disk - other.disk }
    }

    fn max(self, other: Amount) -> Amount {
        Amount { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory), disk: self.disk.max(other.disk) }
    }

    /// The first dimension in which `self` is more than `capacity`.
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

/// What a node has for allocations: its resources without what it keeps for itself.
pub fn capacity(node: &Node) -> Amount {
    let whole = match (&node.node_resources, &node.resources) {
        (Some(has), _) => Amount { cpu: has.cpu.cpu_shares, memory: has.memory.memory_mb, disk: has.disk.disk_mb },
        (None, Some(old)) => old_form(old),
        (None, None) => Amount::default(),
    };
    let kept = match (&node.reserved_resources, &node.reserved) {
        (Some(keeps), _) => Amount { cpu: keeps.cpu.cpu_shares, memory: keeps.memory.memory_mb, disk: keeps.disk.disk_mb },
        (None, Some(old)) => old_form(old),
        (None, None) => Amount::default(),
    };
    whole.minus(kept)
}

fn old_form(resources: &Resources) -> Amount {
    Amount { cpu: resources.cpu, memory: resources.memory_mb, disk: resources.disk_mb }
}

/// What an allocation uses of its node.
pub fn used_by(alloc: &Allocation) -> Amount {
    alloc.allocated_resources.as_deref().map(asked).unwrap_or_default()
}

/// What these resources come to, given that not all tasks run at the same time: the tasks before the main ones, the main ones with
/// those that start after them, and the tasks after all others, each time with the sidecars that run all along.
pub fn asked(resources: &AllocatedResources) -> Amount {
    let (mut before, mut main, mut after, mut sidecars) = <(Amount, Amount, Amount, Amount)>::default();
    let lifecycles = resources.task_lifecycles.as_ref();
    for (name, task) in resources.tasks.iter().flatten() {
        let amount = Amount { cpu: task.cpu.cpu_shares, memory: task.memory.memory_mb, disk: 0 };
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

/// Whether these allocations can be on the node together; otherwise what there is too little of, or which ports collide.
/// Allocations that their node is done with do not count.
pub fn allocs_fit<'a>(node: &Node, allocs: impl IntoIterator<Item = &'a Allocation>) -> Result<Amount, String> {
    let mut used = Amount::default();
    let mut with_ports = Vec::new();
    for alloc in allocs {
        if alloc.client_terminal() {
            continue;
        }
        used = used.plus(used_by(alloc));
        if crate::network::has_ports(alloc) {
            with_ports.push(alloc);
        }
    }
    if let Some(dimension) = used.exceeds(capacity(node)) {
        return Err(dimension.to_owned());
    }
    if !with_ports.is_empty() {
        let mut ports = Ports::of_node(node).map_err(|port| format!("reserved node port collision: {port}"))?;
        for alloc in with_ports {
            ports.take(alloc).map_err(|port| format!("reserved alloc port collision: {port}"))?;
        }
    }
    Ok(used)
}

/// What the tasks of a group get, and their lifecycles, as an allocation records them.
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
    let mut resources = AllocatedResources { tasks: Some(tasks), task_lifecycles: Some(lifecycles), ..Default::default() };
    resources.shared.disk_mb = group.ephemeral_disk.as_ref().map_or(0, |disk| disk.size_mb);
    resources
}

#[cfg(test)]
mod tests;
