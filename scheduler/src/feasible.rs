//! Feasibility: whether a node may run a group at all, by drivers, constraints and networks. Scores and free room are
//! checked in `rank` and `fit`.

pub mod abilities;
mod constraint;
mod eligibility;
pub mod volumes;

use std::collections::BTreeSet;

use songline_model::{Constraint, Job, Node, Str, TaskGroup};

pub use constraint::{Rule, resolve, satisfied};
pub use eligibility::{ClassStatus, Eligibility};

use crate::{devices, network};

/// All demands of a group and its job on a node, prepared once for checking many nodes.
#[derive(Debug)]
pub struct Demands {
    job: Vec<Rule>,
    group: Vec<Rule>,
    drivers: BTreeSet<Str>,
    network: Option<songline_model::NetworkResource>,
    devices: Vec<devices::Request>,
    abilities: Vec<&'static str>,
    /// Demands that cannot be decided from the node alone.
    pub distinct: Distinct,
}

/// Demands that depend on the other allocations of the job.
#[derive(Debug, Default)]
pub struct Distinct {
    /// No two allocations of the job on one node.
    pub hosts_of_job: bool,
    /// No two allocations of the group on one node.
    pub hosts_of_group: bool,
    /// Bounds on allocations per value of a node property.
    pub properties: Vec<DistinctProperty>,
}

/// One `distinct_property` constraint.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctProperty {
    /// Node property, as the constraint names it.
    pub target: Str,
    /// Most allocations per value; `Err` is the constraint's text when it is not a number.
    pub limit: Result<u64, Str>,
    /// Counts allocations of the whole job instead of those of the group.
    pub whole_job: bool,
}

impl Demands {
    /// The demands of `group` of `job`.
    pub fn of(job: &Job, group: &TaskGroup) -> Self {
        let (of_job, of_group): (Vec<&Constraint>, Vec<&Constraint>) =
            (of_job(job).collect(), of_group(group).collect());
        let distinct_hosts =
            |constraints: &[&Constraint]| constraints.iter().any(|constraint| is_distinct_hosts(constraint));
        let mut distinct = Distinct {
            hosts_of_job: distinct_hosts(&of_job),
            hosts_of_group: distinct_hosts(&of_group),
            properties: Vec::new(),
        };
        for (constraints, whole_job) in [(&of_job, true), (&of_group, false)] {
            for constraint in constraints.iter().filter(|constraint| constraint.operand == "distinct_property") {
                let limit = constraint.r_target.trim();
                let limit =
                    if limit.is_empty() { Ok(1) } else { limit.parse().map_err(|_| constraint.r_target.clone()) };
                distinct.properties.push(DistinctProperty { target: constraint.l_target.clone(), limit, whole_job });
            }
        }
        let requests: Vec<_> = group.tasks.iter().flatten().filter_map(|task| task.resources.as_ref()).collect();
        Self {
            job: of_job.into_iter().map(Rule::new).collect(),
            group: of_group.into_iter().map(Rule::new).collect(),
            drivers: group.tasks.iter().flatten().map(|task| task.driver.clone()).collect(),
            network: group.networks.iter().flatten().next().cloned(),
            devices: requests
                .iter()
                .flat_map(|asked| asked.devices.iter().flatten())
                .map(devices::Request::new)
                .collect(),
            abilities: abilities::needed(group),
            distinct,
        }
    }

    /// Checks all demands that are decided from the node alone; `Err` is the filter text.
    pub fn check_node(&self, node: &Node) -> Result<(), Str> {
        self.check_job(node)?;
        self.check_group(node)?;
        self.check_abilities(node)
    }

    /// Checks the abilities of the node's agent; `Err` is the filter text.
    pub fn check_abilities(&self, node: &Node) -> Result<(), Str> {
        abilities::check(&self.abilities, node)
    }

    /// Checks the job's demands; `Err` is the filter text.
    pub fn check_job(&self, node: &Node) -> Result<(), Str> {
        check_rules(&self.job, node)
    }

    /// Checks the demands of the group and its tasks on drivers, attributes, devices and networks, in this order; `Err`
    /// is the filter text.
    pub fn check_group(&self, node: &Node) -> Result<(), Str> {
        self.check_drivers(node)?;
        check_rules(&self.group, node)?;
        self.check_devices(node)?;
        self.check_network(node)
    }

    /// Checks the demands of the group in which the nodes of one class may differ: health of drivers, and health and
    /// number of devices. `Err` is the filter text.
    pub fn check_group_in_class(&self, node: &Node) -> Result<(), Str> {
        self.check_drivers(node)?;
        self.check_devices(node)
    }

    /// Whether some node of this node's class may meet the demands of the group, even if this one does not.
    pub fn may_meet_in_class(&self, node: &Node) -> bool {
        !self.lacks_driver(node)
            && check_rules(&self.group, node).is_ok()
            && !devices::lacks(&self.devices, node)
            && self.check_network(node).is_ok()
    }

    fn check_drivers(&self, node: &Node) -> Result<(), Str> {
        if self.drivers.iter().all(|driver| has_driver(node, driver)) { Ok(()) } else { Err("missing drivers".into()) }
    }

    /// Whether the node has no trace of one of the drivers, so that no node of its class has that driver.
    fn lacks_driver(&self, node: &Node) -> bool {
        self.drivers.iter().any(|driver| {
            let detected =
                node.drivers.as_ref().and_then(|drivers| drivers.get(driver)).is_some_and(|info| info.detected);
            !detected && node.attribute(&format!("driver.{driver}")).is_none()
        })
    }

    fn check_devices(&self, node: &Node) -> Result<(), Str> {
        if devices::feasible(&self.devices, node) { Ok(()) } else { Err("missing devices".into()) }
    }

    fn check_network(&self, node: &Node) -> Result<(), Str> {
        self.network.as_ref().map_or(Ok(()), |ask| check_network(ask, node))
    }
}

fn of_job(job: &Job) -> impl Iterator<Item = &Constraint> {
    job.constraints.iter().flatten()
}

/// Constraints of a group and its tasks.
fn of_group(group: &TaskGroup) -> impl Iterator<Item = &Constraint> {
    let of_tasks = group.tasks.iter().flatten().flat_map(|task| task.constraints.iter().flatten());
    group.constraints.iter().flatten().chain(of_tasks)
}

/// Whether the result of any of these constraints can differ between nodes of one class.
fn escape<'c>(mut constraints: impl Iterator<Item = &'c Constraint>) -> bool {
    constraints.any(|constraint| escapes_class(&constraint.l_target) || escapes_class(&constraint.r_target))
}

/// Whether a constraint on this target can differ between nodes of one class.
fn escapes_class(target: &str) -> bool {
    ["${node.unique.", "${attr.unique.", "${meta.unique."].iter().any(|prefix| target.starts_with(prefix))
}

fn check_rules(rules: &[Rule], node: &Node) -> Result<(), Str> {
    match rules.iter().find(|rule| !rule.holds(node)) {
        Some(broken) => Err(broken.text()),
        None => Ok(()),
    }
}

fn is_distinct_hosts(constraint: &Constraint) -> bool {
    // Any value but a clear "no" switches the constraint on.
    constraint.operand == "distinct_hosts"
        && !matches!(constraint.r_target.as_str(), "false" | "False" | "FALSE" | "f" | "F" | "0")
}

/// Whether the node reports a working driver of this name.
pub fn has_driver(node: &Node, driver: &str) -> bool {
    match node.drivers.as_ref().and_then(|drivers| drivers.get(driver)) {
        Some(info) => info.detected && info.healthy,
        // Nodes that do not report driver health have one attribute per driver.
        None => node
            .attribute(&format!("driver.{driver}"))
            .is_some_and(|value| matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True")),
    }
}

fn check_network(ask: &songline_model::NetworkResource, node: &Node) -> Result<(), Str> {
    let mode = if ask.mode.is_empty() { "host" } else { ask.mode.as_str() };
    if mode == "none" {
        return Ok(());
    }
    let resources = node.node_resources.as_deref();
    let modes = resources.into_iter().flat_map(|resources| {
        let new_form = resources.node_networks.iter().flatten().map(|network| network.mode.as_str());
        new_form.chain(resources.networks.iter().flatten().map(|network| network.mode.as_str()))
    });
    let mut modes = modes.map(|mode| if mode.is_empty() { "host" } else { mode });
    if !modes.any(|has| has == mode) {
        return Err("missing network".into());
    }
    for port in ask.reserved_ports.iter().flatten().chain(ask.dynamic_ports.iter().flatten()) {
        if port.host_network.is_empty() {
            continue;
        }
        let network = network::host_network(port, node);
        if network.is_empty() {
            return Err(
                format!("invalid host network {:?} template for port {:?}", port.host_network, port.label).into()
            );
        }
        if !network::addresses(node).any(|(alias, ..)| alias == network) {
            return Err(format!("missing host network {network:?} for port {:?}", port.label).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
