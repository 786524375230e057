//! What is used of one node, counted once per attempt and kept up as the attempt plans: the cost of a placement does not grow with the
//! allocations that are there.

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{AllocId, AllocatedResources, Allocation, Job, Node, Str};
use songline_projections::State;

use crate::fit::{self, Amount};
use crate::network::Ports;

/// The use of one node: of all allocations that its client is not done with, without those that the plan stops.
#[derive(Debug)]
pub(super) struct Usage {
    pub capacity: Amount,
    pub used: Amount,
    /// Allocations of the job that is being placed.
    pub of_job: u64,
    /// The same per group.
    of_groups: BTreeMap<Str, u64>,
    /// Counted when a group first asks for ports.
    ports: Option<Result<Ports, String>>,
}

impl Usage {
    /// Counts a node.
    pub fn count(view: &State, node: &Node, job: &Job, stopped: &BTreeSet<AllocId>) -> Self {
        let mut usage = Self { capacity: fit::capacity(node), used: Amount::default(), of_job: 0, of_groups: BTreeMap::new(), ports: None };
        for alloc in view.allocs_of_node(node.id) {
            if !alloc.client_terminal() && !stopped.contains(&alloc.id) {
                usage.add(alloc, job);
            }
        }
        usage
    }

    /// Allocations of a group of the job.
    pub fn of_group(&self, group: &str) -> u64 {
        self.of_groups.get(group).copied().unwrap_or(0)
    }

    /// One more, that is there or comes back.
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
            // Ports that two hold stay taken, which is all that matters for the next one.
            let _ = ports.take(alloc);
        }
    }

    /// One less: the plan stops it.
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
    }

    /// One more of the job, which gets these resources.
    pub fn place(&mut self, group: &Str, asked: Amount, resources: &AllocatedResources) {
        self.used = self.used.plus(asked);
        self.of_job += 1;
        *self.of_groups.entry(group.clone()).or_insert(0) += 1;
        if let Some(Ok(ports)) = &mut self.ports {
            let _ = ports.take_all(resources);
        }
    }

    /// The ports that are taken; `Err` is why the node cannot tell.
    pub fn ports(&mut self, view: &State, node: &Node, stopped: &BTreeSet<AllocId>) -> Result<&Ports, String> {
        let ports = self.ports.get_or_insert_with(|| {
            let mut ports = Ports::of_node(node).map_err(|_| "network: invalid node".to_owned())?;
            let there = || view.allocs_of_node(node.id).filter(|alloc| !alloc.client_terminal() && !stopped.contains(&alloc.id));
            for alloc in there().filter(|alloc| !alloc.server_terminal()) {
                ports.take(alloc).map_err(|_| "network: port collision".to_owned())?;
            }
            // One that is about to stop may share its ports with the one that takes over from it.
            for alloc in there().filter(|alloc| alloc.server_terminal()) {
                let _ = ports.take(alloc);
            }
            Ok(ports)
        });
        ports.as_ref().map_err(Clone::clone)
    }
}

fn is_of(alloc: &Allocation, job: &Job) -> bool {
    alloc.job_id == job.id && alloc.namespace == job.namespace
}
