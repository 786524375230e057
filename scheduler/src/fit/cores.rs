//! Reserved cores: whole cores of a node that a task has for itself.

use std::collections::BTreeSet;

use songline_model::{AllocatedResources, Node};

/// Name of the dimension in metrics.
pub const DIMENSION: &str = "cores";

/// The cores that tasks may reserve on the node. Those that the node keeps for itself are left out.
pub fn reservable(node: &Node) -> BTreeSet<u64> {
    let kept: BTreeSet<u64> =
        node.reserved_resources.iter().flat_map(|kept| kept.cpu.reserved_cpu_cores.iter().flatten()).copied().collect();
    let all = node.node_resources.iter().flat_map(|has| has.cpu.reservable_cpu_cores.iter().flatten());
    all.copied().filter(|core| !kept.contains(core)).collect()
}

/// CPU shares, in MHz, that a reserved core counts for.
pub fn shares_per_core(node: &Node) -> i64 {
    let Some(has) = &node.node_resources else { return 0 };
    has.cpu.cpu_shares / i64::try_from(has.cpu.total_cpu_cores).unwrap_or(i64::MAX).max(1)
}

/// The cores that the tasks of an allocation have reserved.
pub fn reserved(resources: &AllocatedResources) -> impl Iterator<Item = u64> {
    resources.tasks.iter().flatten().flat_map(|(_, task)| task.cpu.reserved_cores.iter().flatten().copied())
}
