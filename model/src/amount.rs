//! Amounts of CPU, memory and disk: what every node has, and what allocations use of it.

use crate::{AllocatedResources, Allocation, Node, Resources, Str, TaskPhase};

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
    /// The sum of both amounts. It wraps around, so that `minus` always undoes it, and no row that a node or a job made up
    /// stops the server.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount {
            cpu: self.cpu.wrapping_add(other.cpu),
            memory: self.memory.wrapping_add(other.memory),
            disk: self.disk.wrapping_add(other.disk),
        }
    }

    /// The amount left after `other`; may be negative.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        Amount {
            cpu: self.cpu.wrapping_sub(other.cpu),
            memory: self.memory.wrapping_sub(other.memory),
            disk: self.disk.wrapping_sub(other.disk),
        }
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

impl AllocatedResources {
    /// Peak amount of these resources, given that not all tasks run at the same time. The phases are prestart tasks,
    /// main tasks together with poststart tasks, and poststop tasks. Prestart sidecars count in the first two phases.
    pub fn amount(&self) -> Amount {
        self.amount_after(|_, _| ())
    }

    /// Peak amount as [`AllocatedResources::amount`] sums it, after `change` has changed the amount of each task.
    pub fn amount_after(&self, change: impl Fn(&Str, &mut Amount)) -> Amount {
        let (mut before, mut main, mut after, mut sidecars) = <(Amount, Amount, Amount, Amount)>::default();
        let lifecycles = self.task_lifecycles.as_ref();
        for (name, task) in self.tasks.iter().flatten() {
            let mut amount = Amount { cpu: task.cpu.cpu_shares, memory: task.memory.memory_mb, disk: 0 };
            change(name, &mut amount);
            let lifecycle = lifecycles.and_then(|lifecycles| lifecycles.get(name)).and_then(Option::as_ref);
            let phase = match TaskPhase::of(lifecycle) {
                TaskPhase::Sidecar => &mut sidecars,
                TaskPhase::Before => &mut before,
                TaskPhase::After => &mut after,
                TaskPhase::Main => &mut main,
            };
            *phase = phase.plus(amount);
        }
        let mut most = main.plus(sidecars).max(before.plus(sidecars)).max(after);
        most.disk = self.shared.disk_mb;
        most
    }

    /// Whether the resources include ports, reserved cores or devices, which no other allocation of the node can have.
    pub fn has_exclusive(&self) -> bool {
        let shared = &self.shared;
        let networks = |networks: &Option<Vec<_>>| networks.as_ref().is_some_and(|networks| !networks.is_empty());
        shared.ports.as_ref().is_some_and(|ports| !ports.is_empty())
            || networks(&shared.networks)
            || self.tasks.iter().flatten().any(|(_, task)| {
                networks(&task.networks)
                    || task.cpu.reserved_cores.as_ref().is_some_and(|cores| !cores.is_empty())
                    || task.devices.as_ref().is_some_and(|devices| !devices.is_empty())
            })
    }
}

impl Node {
    /// Amount that the node has for allocations: its resources minus its reserved ones.
    pub fn capacity(&self) -> Amount {
        let whole = match (&self.node_resources, &self.resources) {
            (Some(has), _) => Amount { cpu: has.cpu.cpu_shares, memory: has.memory.memory_mb, disk: has.disk.disk_mb },
            (None, Some(old)) => old_form(old),
            (None, None) => Amount::default(),
        };
        let kept = match (&self.reserved_resources, &self.reserved) {
            (Some(keeps), _) => {
                Amount { cpu: keeps.cpu.cpu_shares, memory: keeps.memory.memory_mb, disk: keeps.disk.disk_mb }
            }
            (None, Some(old)) => old_form(old),
            (None, None) => Amount::default(),
        };
        whole.minus(kept)
    }
}

fn old_form(resources: &Resources) -> Amount {
    Amount { cpu: resources.cpu, memory: resources.memory_mb, disk: resources.disk_mb }
}

impl Allocation {
    /// Peak amount that the allocation uses on its node.
    pub fn amount(&self) -> Amount {
        self.allocated_resources.as_deref().map(AllocatedResources::amount).unwrap_or_default()
    }

    /// Whether the allocation holds ports, reserved cores or devices.
    pub fn has_exclusive(&self) -> bool {
        self.allocated_resources.as_deref().is_some_and(AllocatedResources::has_exclusive)
    }
}
