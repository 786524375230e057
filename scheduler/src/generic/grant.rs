//! Resources that one node would give to an allocation: those that every node gives, and ports, networks, cores and
//! devices that depend on the node. The allocation's own form of them is built only for the node that is selected.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use songline_model::{
    AllocId, AllocatedDeviceResource, AllocatedPortMapping, AllocatedResources, Amount, NetworkResource, Node,
};
use songline_projections::State;

use super::ask::{Ask, TaskAsk};
use super::usage::Usage;
use crate::devices::{self, Held};
use crate::fit::cores;
use crate::holders::Holders;
use crate::network::{self, Ports};
use crate::seed::Seed;

/// Resource of which a node has too little for an allocation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lack {
    /// A port is taken.
    Ports(String),
    /// Devices are taken, or there are none.
    Devices(&'static str),
    /// CPU, memory or disk ran out; `asked` is the whole amount for the allocation.
    Room { dimension: &'static str, asked: Amount },
    /// Nothing gives way for this: reserved cores ran out, a port is held twice, or ports in use cannot be counted.
    Fixed(String),
}

/// The dimension as metrics name it.
impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports(why) => write!(f, "network: {why}"),
            Self::Devices(why) => write!(f, "devices: {why}"),
            Self::Room { dimension, .. } => f.write_str(dimension),
            Self::Fixed(why) => f.write_str(why),
        }
    }
}

/// Resources of a node for one allocation. Nothing is taken yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Grant {
    pub amount: Amount,
    /// Ports of the group.
    ports: Vec<AllocatedPortMapping>,
    /// One for each of [`Ask::tasks`].
    tasks: Vec<TaskGrant>,
    /// Score of the devices; `None`: no requested device has affinities.
    pub device_score: Option<f64>,
}

#[derive(Debug, Clone, Default)]
struct TaskGrant {
    network: Option<NetworkResource>,
    cores: Vec<u64>,
    cpu_shares: i64,
    devices: Vec<AllocatedDeviceResource>,
}

impl Grant {
    /// Finds resources for one more allocation on the node; `Err` is what ran out.
    pub fn find(
        ask: &Ask,
        node: &Node,
        usage: &mut Usage,
        (view, stopped): (&State, &BTreeSet<AllocId>),
        seed: &mut Seed,
    ) -> Result<Self, Lack> {
        let mut grant = Self { amount: ask.amount, ..Self::default() };
        if ask.has_ports() || usage.has_doubtful_ports {
            let ports = usage.ports(view, node, stopped).map_err(Lack::Fixed)?;
            grant.find_ports(ask, node, ports, seed).map_err(Lack::Ports)?;
        }
        if ask.tasks.iter().any(|task| !task.devices.is_empty()) {
            let held = usage.devices(view, node, stopped).clone();
            grant.find_devices(ask, node, held).map_err(Lack::Devices)?;
        }
        if ask.tasks.iter().any(|task| task.cores > 0) {
            grant.find_cores(ask, node, usage.cores(view, node, stopped)).map_err(Lack::Fixed)?;
        }
        match usage.used.plus(grant.amount).exceeds(usage.capacity) {
            Some(dimension) => Err(Lack::Room { dimension, asked: grant.amount }),
            None => Ok(grant),
        }
    }

    /// The resources as the allocation records them.
    pub fn resources(self, ask: &Ask, node: &Node) -> Arc<AllocatedResources> {
        if ask.network.is_none() && ask.tasks.is_empty() {
            return ask.resources.clone();
        }
        let mut resources = AllocatedResources::clone(&ask.resources);
        if let Some(network) = &ask.network {
            resources.shared.networks = Some(vec![network::granted(network, &self.ports, node)]);
            resources.shared.ports = Some(self.ports);
        }
        for (task, granted) in ask.tasks.iter().zip(self.tasks) {
            let Some(row) = resources.tasks.as_mut().and_then(|tasks| tasks.get_mut(&task.name)) else { continue };
            row.networks = granted.network.map(|network| vec![network]);
            row.devices = (!granted.devices.is_empty()).then_some(granted.devices);
            if task.cores > 0 {
                row.cpu.cpu_shares = granted.cpu_shares;
                row.cpu.reserved_cores = Some(granted.cores);
            }
        }
        Arc::new(resources)
    }

    fn find_ports(&mut self, ask: &Ask, node: &Node, ports: &Ports, seed: &mut Seed) -> Result<(), String> {
        let mut offer = Vec::new();
        if let Some(network) = &ask.network {
            ports.assign(node, network, &mut offer, seed)?;
        }
        let of_group = offer.len();
        for (at, task) in ask.tasks.iter().enumerate() {
            if let Some(network) = &task.network {
                let granted = ports.assign_task(node, network, &mut offer, seed)?;
                self.task(at).network = Some(granted);
            }
        }
        offer.truncate(of_group);
        self.ports = offer;
        Ok(())
    }

    fn find_devices(&mut self, ask: &Ask, node: &Node, mut held: Held) -> Result<(), &'static str> {
        let (mut matched, mut weights) = (0.0, 0.0);
        for (at, task) in ask.tasks.iter().enumerate().filter(|(_, task)| !task.devices.is_empty()) {
            let offer = devices::assign(&task.devices, node, &mut held)?;
            matched += offer.matched;
            weights += offer.weights;
            self.task(at).devices = offer.devices;
        }
        self.device_score = (weights > 0.0).then(|| matched / weights);
        Ok(())
    }

    fn find_cores(&mut self, ask: &Ask, node: &Node, taken: &Holders<u64>) -> Result<(), String> {
        let mut free = cores::reservable(node).into_iter().filter(|core| !taken.has(core));
        let shares = cores::shares_per_core(node);
        for (at, task) in ask.tasks.iter().enumerate().filter(|(_, task)| task.cores > 0) {
            let granted = self.task(at);
            granted.cores = free.by_ref().take(task.cores).collect();
            if granted.cores.len() < task.cores {
                return Err(cores::DIMENSION.to_owned());
            }
            granted.cpu_shares = shares * task.cores as i64;
        }
        self.amount = ask.resources.amount_after(|name, amount| {
            let own = |(task, granted): (&TaskAsk, &TaskGrant)| (task.name == *name).then_some(granted.cpu_shares);
            if let Some(shares) = ask.tasks.iter().zip(&self.tasks).find_map(own).filter(|shares| *shares > 0) {
                amount.cpu = shares;
            }
        });
        Ok(())
    }

    fn task(&mut self, at: usize) -> &mut TaskGrant {
        if self.tasks.len() <= at {
            self.tasks.resize_with(at + 1, TaskGrant::default);
        }
        &mut self.tasks[at]
    }
}
