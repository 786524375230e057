//! Usage of one node: counted once per attempt, then updated as the attempt plans. So the cost of a placement does not
//! grow with the number of allocations on the node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{AllocId, AllocatedResources, Allocation, Job, Node, Str};
use songline_projections::State;

use crate::devices::Held;
use crate::fit::{self, Amount};
use crate::network::{self, Ports};

/// Usage of one node: all allocations whose client status is not terminal, without those that the plan stops.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    pub capacity: Amount,
    pub used: Amount,
    /// Number of allocations of the job that is being placed.
    pub of_job: u64,
    /// The same number per group.
    of_groups: BTreeMap<Str, u64>,
    /// Ports in use, counted when a group first asks for ports.
    ports: Option<Result<Ports, String>>,
    /// Reserved cores, counted when a group first asks for cores.
    cores: Option<BTreeSet<u64>>,
    /// Devices in use, counted when a group first asks for devices.
    devices: Option<Held>,
}

impl Usage {
    /// Counts the allocations of a node.
    pub fn count(view: &State, node: &Node, job: &Job, stopped: &BTreeSet<AllocId>) -> Self {
        let mut usage = Self {
            capacity: fit::capacity(node),
            used: Amount::default(),
            of_job: 0,
            of_groups: BTreeMap::new(),
            ports: None,
            cores: None,
            devices: None,
        };
        for alloc in view.allocs_of_node(node.id) {
            if !alloc.client_terminal() && !stopped.contains(&alloc.id) {
                usage.add(alloc, job);
            }
        }
        usage
    }

    /// Number of allocations of a group of the job.
    pub fn of_group(&self, group: &str) -> u64 {
        self.of_groups.get(group).copied().unwrap_or(0)
    }

    /// Adds an existing allocation.
    pub fn add(&mut self, alloc: &Allocation, job: &Job) {
        self.used = self.used.plus(fit::used_by(alloc));
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
            // A collision is ignored: a port that two allocations hold is taken, and only that matters for the next
            // placement.
            let _ = ports.take(alloc);
        }
        if let Some(resources) = alloc.allocated_resources.as_deref() {
            self.hold(resources);
        }
    }

    /// Removes an allocation that the plan stops.
    pub fn remove(&mut self, alloc: &Allocation, job: &Job) {
        self.used = self.used.minus(fit::used_by(alloc));
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
                cores.remove(&core);
            }
        }
        if let Some(devices) = &mut self.devices {
            devices.release(resources);
        }
    }

    /// Adds a new allocation of the job with these resources.
    pub fn place(&mut self, group: &Str, resources: &AllocatedResources) {
        self.used = self.used.plus(fit::asked(resources));
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
            cores.extend(fit::cores::reserved(resources));
        }
        if let Some(devices) = &mut self.devices {
            devices.take(resources);
        }
    }

    /// Reserved cores of the node's allocations.
    pub fn cores(&mut self, view: &State, node: &Node, stopped: &BTreeSet<AllocId>) -> &BTreeSet<u64> {
        self.cores.get_or_insert_with(|| {
            there(view, node, stopped)
                .filter_map(|alloc| alloc.allocated_resources.as_deref())
                .flat_map(fit::cores::reserved)
                .collect()
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

    /// Ports in use on the node; `Err` says why they cannot be counted.
    pub fn ports(&mut self, view: &State, node: &Node, stopped: &BTreeSet<AllocId>) -> Result<&Ports, String> {
        let ports = self.ports.get_or_insert_with(|| {
            let mut ports = Ports::of_node(node).map_err(|_| "network: invalid node".to_owned())?;
            for alloc in there(view, node, stopped).filter(|alloc| !alloc.server_terminal()) {
                ports.take(alloc).map_err(|_| network::COLLISION.to_owned())?;
            }
            // A stopping allocation may share ports with its replacement, so such a collision does not rule the node out.
            for alloc in there(view, node, stopped).filter(|alloc| alloc.server_terminal()) {
                ports.disputed |= ports.take(alloc).is_err();
            }
            Ok(ports)
        });
        ports.as_ref().map_err(Clone::clone)
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
