//! Whether allocations fit on a node: sums of CPU, memory and disk against the node's capacity, reserved cores,
//! ports (`network`) and devices (`devices`).

pub mod cores;

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{AllocatedResources, Allocation, Amount, Node};

use crate::devices::{self, Held};
use crate::network::Ports;

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
        used = used.plus(alloc.amount());
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
    let capacity = node.capacity();
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
