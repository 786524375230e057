//! Usage of one node: taken from the state when an attempt first looks at the node, then updated as the attempt plans. So
//! the cost of a placement does not grow with the number of allocations on the node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{AllocId, AllocatedResources, Allocation, Amount, Job, Node, NodeId, Str};
use songline_projections::State;

use crate::devices::Held;
use crate::fit;
use crate::holders::Holders;
use crate::network::{self, Ports};

/// Numbers of allocations of a job's groups on one node.
type GroupCounts = BTreeMap<Str, u64>;

/// Numbers of a job's allocations on each node that has any: those whose client status is not terminal.
#[derive(Debug)]
pub(super) struct OwnCounts(BTreeMap<NodeId, GroupCounts>);

impl OwnCounts {
    /// Counts the allocations of a job.
    pub fn of(view: &State, job: &Job) -> Self {
        let mut counts: BTreeMap<NodeId, GroupCounts> = BTreeMap::new();
        for alloc in view.allocs_of_job(&job.namespace, &job.id).filter(|alloc| !alloc.client_terminal()) {
            if let Some(node) = alloc.node_id {
                *counts.entry(node).or_default().entry(alloc.task_group.clone()).or_insert(0) += 1;
            }
        }
        Self(counts)
    }
}

/// Usage of one node: all allocations whose client status is not terminal, without those that the plan stops.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    pub capacity: Amount,
    pub used: Amount,
    /// Number of allocations of the job that is being placed.
    pub of_job: u64,
    /// The same number per group.
    of_groups: GroupCounts,
    /// Whether ports are counted for groups that ask for none, too: two allocations may hold the same port, or the
    /// node's own ports cannot be read. Both rule the node out for every group.
    pub has_doubtful_ports: bool,
    /// Ports in use, counted when a group first asks for ports. `Err` says why they cannot be.
    ports: Option<Result<Ports, String>>,
    /// Reserved cores, counted when a group first asks for cores.
    cores: Option<Holders<u64>>,
    /// Devices in use, counted when a group first asks for devices.
    devices: Option<Held>,
}

impl Usage {
    /// Usage of a node before the plan. The caller removes what the plan stops.
    pub fn of(view: &State, node: &Node, own: &OwnCounts) -> Self {
        let of_groups = own.0.get(&node.id).cloned().unwrap_or_default();
        let known = view.usage_of_node(node.id);
        // Live allocations never hold the same port: the plan applier sees to that.
        let may_clash = known.exclusive_stopping > 0 && known.exclusive > 1;
        Self {
            capacity: node.capacity(),
            used: known.held,
            of_job: of_groups.values().sum(),
            of_groups,
            has_doubtful_ports: may_clash || !network::is_valid(node),
            ports: None,
            cores: None,
            devices: None,
        }
    }

    /// Number of allocations of a group of the job.
    pub fn of_group(&self, group: &str) -> u64 {
        self.of_groups.get(group).copied().unwrap_or(0)
    }

    /// Adds an existing allocation.
    pub fn add(&mut self, alloc: &Allocation, job: &Job) {
        self.used = self.used.plus(alloc.amount());
        if is_of(alloc, job) {
            self.of_job += 1;
            match self.of_groups.get_mut(&alloc.task_group) {
                Some(count) => *count += 1,
                None => {
                    self.of_groups.insert(alloc.task_group.clone(), 1);
                }
            }
        }
        if let Some(Ok(ports)) = &mut self.ports {
            // `ports` tells of a collision.
            let _ = ports.take(alloc);
        }
        if let Some(resources) = alloc.allocated_resources.as_deref() {
            self.hold(resources);
        }
    }

    /// Removes an allocation that the plan stops.
    pub fn remove(&mut self, alloc: &Allocation, job: &Job) {
        self.used = self.used.minus(alloc.amount());
        if is_of(alloc, job) {
            self.of_job = self.of_job.saturating_sub(1);
            if let Some(count) = self.of_groups.get_mut(&alloc.task_group) {
                *count = count.saturating_sub(1);
            }
        }
        if let Some(Ok(ports)) = &mut self.ports {
            ports.release(alloc);
        }
        let Some(resources) = alloc.allocated_resources.as_deref() else { return };
        if let Some(cores) = &mut self.cores {
            for core in fit::cores::reserved(resources) {
                cores.release(&core);
            }
        }
        if let Some(devices) = &mut self.devices {
            devices.release(resources);
        }
    }

    /// Adds a new allocation of the job with these resources.
    pub fn place(&mut self, group: &Str, resources: &AllocatedResources) {
        self.used = self.used.plus(resources.amount());
        self.of_job += 1;
        *self.of_groups.entry(group.clone()).or_insert(0) += 1;
        if let Some(Ok(ports)) = &mut self.ports {
            let _ = ports.take_all(resources);
        }
        self.hold(resources);
    }

    /// Adds the cores and devices of an allocation.
    fn hold(&mut self, resources: &AllocatedResources) {
        if let Some(cores) = &mut self.cores {
            for core in fit::cores::reserved(resources) {
                cores.take(core);
            }
        }
        if let Some(devices) = &mut self.devices {
            devices.take(resources);
        }
    }

    /// Reserved cores of the node's allocations.
    pub fn cores(&mut self, view: &State, node: &Node, stopped: &BTreeSet<AllocId>) -> &Holders<u64> {
        self.cores.get_or_insert_with(|| {
            let mut cores = Holders::default();
            let held = there(view, node, stopped).filter_map(|alloc| alloc.allocated_resources.as_deref());
            for core in held.flat_map(fit::cores::reserved) {
                cores.take(core);
            }
            cores
        })
    }

    /// Devices of the node's allocations.
    pub fn devices(&mut self, view: &State, node: &Node, stopped: &BTreeSet<AllocId>) -> &Held {
        self.devices.get_or_insert_with(|| {
            let mut held = Held::default();
            for resources in there(view, node, stopped).filter_map(|alloc| alloc.allocated_resources.as_deref()) {
                held.take(resources);
            }
            held
        })
    }

    /// Ports in use on the node; `Err` is the dimension for which the node is ruled out. As in Nomad, a port that two
    /// allocations hold rules it out, also if one of them is stopping and the other took over.
    pub fn ports(&mut self, view: &State, node: &Node, stopped: &BTreeSet<AllocId>) -> Result<&Ports, String> {
        let counted: &Result<Ports, String> = self.ports.get_or_insert_with(|| {
            let mut ports = Ports::of_node(node).map_err(|_| network::INVALID_NODE.to_owned())?;
            for alloc in there(view, node, stopped) {
                let _ = ports.take(alloc);
            }
            Ok(ports)
        });
        match counted {
            Ok(ports) if ports.has_clash() => Err(network::COLLISION.to_owned()),
            Ok(ports) => Ok(ports),
            Err(why) => Err(why.clone()),
        }
    }
}

/// The allocations that use resources of the node and are not stopped by the plan.
fn there<'a>(
    view: &'a State,
    node: &Node,
    stopped: &'a BTreeSet<AllocId>,
) -> impl Iterator<Item = &'a Arc<Allocation>> {
    view.allocs_of_node(node.id).filter(|alloc| !alloc.client_terminal() && !stopped.contains(&alloc.id))
}

fn is_of(alloc: &Allocation, job: &Job) -> bool {
    alloc.job_id == job.id && alloc.namespace == job.namespace
}
