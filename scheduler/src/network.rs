//! Ports: those in use on a node, and the choice of ports for a new allocation. Setting up networks inside an
//! allocation is the node's task.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use songline_model::{AllocatedPortMapping, AllocatedResources, Allocation, NetworkResource, Node, Port, Str};

use crate::feasible::resolve;
use crate::holders::Holders;
use crate::seed::Seed;

/// Range of dynamic ports (upper bound excluded) unless the node gives another.
const DYNAMIC_PORTS: (i64, i64) = (20_000, 32_000);
/// Number of random tries for a dynamic port before all are tried in order.
const RANDOM_TRIES: usize = 20;
/// Host network of a port that names none.
const DEFAULT_HOST_NETWORK: &str = "default";
/// Dimension of a node on which two allocations hold the same port.
pub const COLLISION: &str = "network: port collision";
/// Dimension of a node whose lists of reserved ports cannot be read.
pub const INVALID_NODE: &str = "network: invalid node";
const PORTS: usize = 65_536;
const NO_DYNAMIC_PORT: &str = "dynamic port selection failed";

/// Ports in use on one node, per address.
#[derive(Debug, Clone)]
pub struct Ports {
    taken: BTreeMap<Str, PortSet>,
    /// Further holders of ports that are taken.
    shared: Holders<(Str, i64)>,
}

#[derive(Debug, Clone)]
struct PortSet(Box<[u64; PORTS / 64]>);

impl PortSet {
    fn empty() -> Self {
        Self(Box::new([0; PORTS / 64]))
    }

    fn has(&self, port: i64) -> bool {
        usize::try_from(port)
            .ok()
            .and_then(|port| self.0.get(port / 64).map(|word| word >> (port % 64) & 1 == 1))
            .unwrap_or(false)
    }

    fn set(&mut self, port: i64, on: bool) {
        let Ok(port) = usize::try_from(port) else { return };
        let Some(word) = self.0.get_mut(port / 64) else { return };
        if on {
            *word |= 1 << (port % 64);
        } else {
            *word &= !(1 << (port % 64));
        }
    }
}

impl Ports {
    /// The ports that the node reserves for itself; `Err` is a text that is not a list of ports.
    pub fn of_node(node: &Node) -> Result<Self, String> {
        let mut ports = Self { taken: BTreeMap::new(), shared: Holders::default() };
        let everywhere = parse_ports(reserved_everywhere(node))?;
        for (_, address, kept) in addresses(node) {
            let kept = parse_ports(kept)?;
            let set = ports.taken.entry(address.clone()).or_insert_with(PortSet::empty);
            for port in everywhere.iter().chain(&kept) {
                set.set(*port, true);
            }
        }
        Ok(ports)
    }

    /// Takes the ports of an allocation. `Err` is the first port that was in use already; all ports are taken even
    /// then.
    pub fn take(&mut self, alloc: &Allocation) -> Result<(), i64> {
        alloc.allocated_resources.as_deref().map_or(Ok(()), |resources| self.take_all(resources))
    }

    /// Takes the ports of these resources, as [`Ports::take`] does.
    pub fn take_all(&mut self, resources: &AllocatedResources) -> Result<(), i64> {
        let mut collision = Ok(());
        each_port(resources, |address, port| {
            let set = self.taken.entry(address.clone()).or_insert_with(PortSet::empty);
            if !set.has(port) {
                set.set(port, true);
                return;
            }
            self.shared.take((address.clone(), port));
            if collision.is_ok() {
                collision = Err(port);
            }
        });
        collision
    }

    /// Releases the ports of an allocation, except those that another one or the node itself holds, too.
    pub fn release(&mut self, alloc: &Allocation) {
        let Some(resources) = alloc.allocated_resources.as_deref() else { return };
        each_port(resources, |address, port| {
            if self.shared.release(&(address.clone(), port)) {
                return;
            }
            if let Some(set) = self.taken.get_mut(address) {
                set.set(port, false);
            }
        });
    }

    /// Whether a port is held twice: by two allocations, or by an allocation and the node itself.
    pub fn has_clash(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Finds ports for the request of a group and adds them to `offer`. No port is taken yet: see [`Ports::take_all`].
    pub fn assign(
        &self,
        node: &Node,
        ask: &NetworkResource,
        offer: &mut Vec<AllocatedPortMapping>,
        seed: &mut Seed,
    ) -> Result<(), String> {
        for port in ask.reserved_ports.iter().flatten() {
            // Only the first address of a network serves static ports.
            let address = self.addresses_for(node, port)?.swap_remove(0);
            self.check_static(port, &address, offer)?;
            offer.push(mapping(port, port.value, address));
        }
        for port in ask.dynamic_ports.iter().flatten() {
            let found = self.addresses_for(node, port)?.into_iter().find_map(|address| {
                let value = self.free_port(node, &address, offer, seed)?;
                Some(mapping(port, value, address))
            });
            offer.push(found.ok_or(NO_DYNAMIC_PORT)?);
        }
        Ok(())
    }

    /// Finds ports for the network of a task: all on one address of the node. They are added to `offer`.
    pub fn assign_task(
        &self,
        node: &Node,
        ask: &NetworkResource,
        offer: &mut Vec<AllocatedPortMapping>,
        seed: &mut Seed,
    ) -> Result<NetworkResource, String> {
        let mut why = "no networks available".to_owned();
        let before = offer.len();
        for (device, address) in task_addresses(node) {
            match self.assign_on(node, address, ask, offer, seed) {
                Ok(()) => {
                    let mut network = ask.clone();
                    network.device = device.clone();
                    network.ip = address.clone();
                    fill_in(&mut network, &offer[before..]);
                    return Ok(network);
                }
                Err(error) => why = error,
            }
            offer.truncate(before);
        }
        Err(why)
    }

    fn assign_on(
        &self,
        node: &Node,
        address: &Str,
        ask: &NetworkResource,
        offer: &mut Vec<AllocatedPortMapping>,
        seed: &mut Seed,
    ) -> Result<(), String> {
        for port in ask.reserved_ports.iter().flatten() {
            self.check_static(port, address, offer)?;
            offer.push(mapping(port, port.value, address.clone()));
        }
        for port in ask.dynamic_ports.iter().flatten() {
            let value = self.free_port(node, address, offer, seed).ok_or(NO_DYNAMIC_PORT)?;
            offer.push(mapping(port, value, address.clone()));
        }
        Ok(())
    }

    fn check_static(&self, port: &Port, address: &Str, offer: &[AllocatedPortMapping]) -> Result<(), String> {
        if port.value < 0 || port.value >= PORTS as i64 {
            return Err(format!("invalid port {} (out of range)", port.value));
        }
        let offered = offer.iter().any(|other| other.value == port.value && other.host_ip == *address);
        if offered || self.is_taken(address, port.value) {
            return Err(format!("reserved port collision {}={}", port.label, port.value));
        }
        Ok(())
    }

    fn addresses_for(&self, node: &Node, port: &Port) -> Result<Vec<Str>, String> {
        let network = host_network(port, node);
        let found: Vec<Str> =
            addresses(node).filter(|(alias, ..)| *alias == network).map(|(_, address, _)| address.clone()).collect();
        if found.is_empty() { Err(format!("no addresses available for {network} network")) } else { Ok(found) }
    }

    fn is_taken(&self, address: &str, port: i64) -> bool {
        self.taken.get(address).is_some_and(|set| set.has(port))
    }

    fn free_port(&self, node: &Node, address: &str, offer: &[AllocatedPortMapping], seed: &mut Seed) -> Option<i64> {
        let (mut low, mut high) = DYNAMIC_PORTS;
        if let Some(resources) = &node.node_resources {
            low = if resources.min_dynamic_port > 0 { resources.min_dynamic_port } else { low };
            high = if resources.max_dynamic_port > 0 { resources.max_dynamic_port } else { high };
        }
        let free = |port: i64| !self.is_taken(address, port) && offer.iter().all(|other| other.value != port);
        let width = u64::try_from(high - low).unwrap_or(0);
        if width > 0 {
            for _ in 0..RANDOM_TRIES {
                let port = low + seed.below(width) as i64;
                if free(port) {
                    return Some(port);
                }
            }
        }
        (low..=high).find(|port| free(*port))
    }
}

/// Whether an allocation holds any port.
pub fn has_ports(alloc: &Allocation) -> bool {
    let mut any = false;
    if let Some(resources) = &alloc.allocated_resources {
        each_port(resources, |_, _| any = true);
    }
    any
}

/// Whether an allocation holds one of the ports.
pub fn holds(alloc: &Allocation, is_wanted: impl Fn(i64) -> bool) -> bool {
    let mut any = false;
    if let Some(resources) = &alloc.allocated_resources {
        each_port(resources, |_, port| any |= is_wanted(port));
    }
    any
}

/// The network of a group as an allocation records it: the request with the assigned ports.
pub fn granted(ask: &NetworkResource, offer: &[AllocatedPortMapping], node: &Node) -> NetworkResource {
    let mut network = ask.clone();
    fill_in(&mut network, offer);
    if let Some(resources) = &node.node_resources {
        let of_host = |mode: &str| mode == "host" || mode.is_empty();
        let new_form = resources.node_networks.iter().flatten().find(|network| of_host(&network.mode));
        let first =
            new_form.and_then(|network| network.addresses.as_ref()?.first()).map(|address| address.address.clone());
        let old_form = || {
            resources
                .networks
                .iter()
                .flatten()
                .rfind(|network| of_host(&network.mode))
                .map(|network| network.ip.clone())
        };
        if let Some(address) = first.or_else(old_form) {
            network.ip = address;
        }
    }
    network
}

/// Sets the values of the dynamic ports to those of the offer.
fn fill_in(network: &mut NetworkResource, offer: &[AllocatedPortMapping]) {
    for port in network.dynamic_ports.iter_mut().flatten() {
        if let Some(got) = offer.iter().find(|got| got.label == port.label) {
            port.value = got.value;
            port.to = got.to;
        }
    }
}

/// Addresses that serve the networks of tasks, with their devices: those of the old form of networks if the node reports
/// it, else all addresses of the default network.
fn task_addresses(node: &Node) -> impl Iterator<Item = (&Str, &Str)> {
    let resources = node.node_resources.as_deref();
    let old = resources.and_then(|resources| resources.networks.as_deref()).unwrap_or_default();
    let old_form = old.iter().filter(|network| !network.ip.is_empty()).map(|network| (&network.device, &network.ip));
    let has_old = old.iter().any(|network| !network.ip.is_empty());
    let networks = resources.filter(|_| !has_old).and_then(|resources| resources.node_networks.as_deref());
    let new_form = networks.unwrap_or_default().iter().flat_map(|network| {
        let default = |alias: &str| alias.is_empty() || alias == DEFAULT_HOST_NETWORK;
        let addresses = network.addresses.iter().flatten().filter(move |address| default(&address.alias));
        addresses.map(|address| (&network.device, &address.address))
    });
    old_form.chain(new_form)
}

/// Name of the host network for a requested port.
pub fn host_network(port: &Port, node: &Node) -> Str {
    if port.host_network.is_empty() {
        return DEFAULT_HOST_NETWORK.into();
    }
    resolve(&port.host_network, node).map(Str::from).unwrap_or_default()
}

/// Every address of a node: (alias of its network, address, text of its reserved ports).
pub fn addresses(node: &Node) -> impl Iterator<Item = (&str, &Str, &str)> {
    let resources = node.node_resources.as_deref();
    let networks = resources.and_then(|resources| resources.node_networks.as_deref()).unwrap_or_default();
    let new_form = networks.iter().flat_map(|network| network.addresses.iter().flatten()).map(|address| {
        let alias = if address.alias.is_empty() { DEFAULT_HOST_NETWORK } else { address.alias.as_str() };
        (alias, &address.address, address.reserved_ports.as_str())
    });
    // A node that reports only old-style networks has one network, the default one.
    let old = if networks.is_empty() { resources.and_then(|resources| resources.networks.as_deref()) } else { None };
    let old_form = old.unwrap_or_default().iter().filter(|network| !network.ip.is_empty());
    new_form.chain(old_form.map(|network| (DEFAULT_HOST_NETWORK, &network.ip, "")))
}

fn mapping(port: &Port, value: i64, host_ip: Str) -> AllocatedPortMapping {
    AllocatedPortMapping { label: port.label.clone(), value, to: if port.to == -1 { value } else { port.to }, host_ip }
}

fn each_port(resources: &AllocatedResources, mut seen: impl FnMut(&Str, i64)) {
    let of_network = |network: &NetworkResource, seen: &mut dyn FnMut(&Str, i64)| {
        for port in network.reserved_ports.iter().flatten().chain(network.dynamic_ports.iter().flatten()) {
            seen(&network.ip, port.value);
        }
    };
    match &resources.shared.ports {
        Some(ports) if !ports.is_empty() => ports.iter().for_each(|port| seen(&port.host_ip, port.value)),
        _ => resources.shared.networks.iter().flatten().for_each(|network| of_network(network, &mut seen)),
    }
    for task in resources.tasks.iter().flatten().map(|(_, task)| task) {
        task.networks.iter().flatten().for_each(|network| of_network(network, &mut seen));
    }
}

/// Whether the list of ports that a node reserves on all its addresses can be read.
pub fn is_valid(node: &Node) -> bool {
    port_ranges(reserved_everywhere(node)).all(|range| range.is_ok())
}

/// The ports that a node reserves on all its addresses, as it lists them.
fn reserved_everywhere(node: &Node) -> &str {
    node.reserved_resources.as_ref().map_or("", |kept| kept.networks.reserved_host_ports.as_str())
}

/// Parses `22,80,8500-8600`.
pub fn parse_ports(text: &str) -> Result<Vec<i64>, String> {
    let mut ports = Vec::new();
    for range in port_ranges(text) {
        ports.extend(range?);
    }
    Ok(ports)
}

/// The ranges of such a list; a single port is a range of one. `Err` is a part that is no range of ports.
fn port_ranges(text: &str) -> impl Iterator<Item = Result<RangeInclusive<i64>, String>> {
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|port| (0..PORTS as i64).contains(port));
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(move |part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        match (number(low), number(high)) {
            (Some(low), Some(high)) if low <= high => Ok(low..=high),
            _ => Err(format!("invalid port range: {part}")),
        }
    })
}

#[cfg(test)]
mod tests;
