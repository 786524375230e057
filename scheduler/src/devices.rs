//! Devices: which groups of equal devices satisfy a request, which devices are free, and which are given to a task.
//! Plugins and the passing of devices into tasks are the node's.

mod attribute;
pub(crate) mod victims;

use songline_model::{
    Affinity, AllocatedDeviceResource, AllocatedResources, Constraint, Node, NodeDevice, NodeDeviceResource,
    RequestedDevice, Str,
};

use attribute::{Value, holds};

use crate::holders::Holders;

/// Dimension in the applier's refusal of devices that two allocations hold.
pub const OVERSUBSCRIBED: &str = "device oversubscribed";
/// Target of a constraint on single devices.
const IDS: &str = "${device.ids}";

/// A request of a task, prepared for checking many nodes.
#[derive(Debug)]
pub struct Request {
    /// Vendor, type and name; `None`: any.
    vendor: Option<Str>,
    kind: Str,
    name: Option<Str>,
    count: u64,
    constraints: Vec<Constraint>,
    affinities: Vec<Affinity>,
}

/// Devices of a node that allocations hold, each as vendor, type, name and id.
#[derive(Debug, Clone, Default)]
pub struct Held(Holders<(Str, Str, Str, Str)>);

/// Devices for the requests of one task.
#[derive(Debug, Default)]
pub struct Offer {
    /// The devices, one entry for each request.
    pub devices: Vec<AllocatedDeviceResource>,
    /// Sum of the weights of the affinities that match the devices.
    pub matched: f64,
    /// Sum of the absolute weights of all affinities; 0: there are none.
    pub weights: f64,
}

impl Request {
    /// Prepares a request. Its name is `type`, `vendor/type` or `vendor/type/name`.
    pub fn new(asked: &RequestedDevice) -> Self {
        let parts: Vec<&str> = asked.name.splitn(3, '/').collect();
        let (vendor, kind, name) = match parts[..] {
            [vendor, kind, name] => (Some(vendor), kind, Some(name)),
            [vendor, kind] => (Some(vendor), kind, None),
            _ => (None, asked.name.as_str(), None),
        };
        Self {
            vendor: vendor.map(Str::from),
            kind: kind.into(),
            name: name.map(Str::from),
            count: asked.count,
            constraints: asked.constraints.clone().unwrap_or_default(),
            affinities: asked.affinities.clone().unwrap_or_default(),
        }
    }

    /// Whether the devices of a group have the requested name and satisfy the constraints.
    fn matches(&self, group: &NodeDeviceResource) -> bool {
        self.satisfied_by(group, |_| true)
    }

    /// Whether a group has the requested name and satisfies the constraints that `counts` selects.
    fn satisfied_by(&self, group: &NodeDeviceResource, counts: impl Fn(&Constraint) -> bool) -> bool {
        let named = |asked: &Option<Str>, has: &Str| asked.as_ref().is_none_or(|asked| asked == has);
        self.kind == group.kind
            && named(&self.vendor, &group.vendor)
            && named(&self.name, &group.name)
            && self.constraints.iter().filter(|constraint| counts(constraint)).all(|constraint| {
                relation_holds(group, &constraint.l_target, &constraint.operand, &constraint.r_target)
            })
    }

    /// Whether a single device satisfies the constraints on ids.
    fn matches_device(&self, device: &NodeDevice) -> bool {
        self.constraints.iter().all(|constraint| {
            let ids = match (constraint.l_target.as_str(), constraint.r_target.as_str()) {
                (IDS, ids) | (ids, IDS) => ids,
                _ => return true,
            };
            let listed = ids.split(',').any(|id| id.trim() == device.id.as_str());
            match constraint.operand.as_str() {
                "=" | "==" | "is" | "set_contains" | "set_contains_all" | "set_contains_any" => listed,
                "!=" | "not" => !listed,
                "regexp" => crate::feasible::satisfied("regexp", Some(&device.id), Some(ids)),
                _ => true,
            }
        })
    }

    /// Sum of the weights of the affinities that match a group.
    fn matched(&self, group: &NodeDeviceResource) -> f64 {
        let matches =
            |affinity: &&Affinity| relation_holds(group, &affinity.l_target, &affinity.operand, &affinity.r_target);
        self.affinities.iter().filter(matches).map(|affinity| affinity.weight as f64).sum()
    }

    fn weights(&self) -> f64 {
        self.affinities.iter().map(|affinity| affinity.weight.abs() as f64).sum()
    }

    /// Number of the requested devices.
    fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// Whether a group has enough free devices. For a request of no devices, none has.
    fn has_enough(&self, group: &NodeDeviceResource, held: &Held) -> bool {
        let count = self.count();
        count > 0 && self.free(group, held).take(count).count() == count
    }

    /// Number of devices of a group in these resources that the request could use.
    fn count_in(&self, group: &NodeDeviceResource, resources: &AllocatedResources) -> usize {
        let usable = |wanted: &Str| {
            let mut devices = group.instances.iter().flatten();
            devices.any(|device| device.healthy && device.id == *wanted && self.matches_device(device))
        };
        let of_group = keys(resources)
            .filter(|(vendor, kind, name, _)| *vendor == group.vendor && *kind == group.kind && *name == group.name);
        of_group.filter(|(.., id)| usable(id)).count()
    }

    /// The healthy devices of a group that satisfy the request and are not held.
    fn free<'a>(&'a self, group: &'a NodeDeviceResource, held: &'a Held) -> impl Iterator<Item = &'a NodeDevice> {
        let devices = group.instances.iter().flatten().filter(|device| device.healthy);
        devices.filter(|device| self.matches_device(device) && !held.has(group, &device.id))
    }
}

impl Held {
    /// Adds the devices of an allocation. False: another one holds a device already.
    pub fn take(&mut self, resources: &AllocatedResources) -> bool {
        let mut alone = true;
        for key in keys(resources) {
            alone &= self.0.take(key);
        }
        alone
    }

    /// Takes as many free devices of the group as are requested, or all if there are fewer. Returns their ids.
    fn take_free(&mut self, group: &NodeDeviceResource, request: &Request) -> Vec<Str> {
        let ids: Vec<Str> = request.free(group, self).take(request.count()).map(|device| device.id.clone()).collect();
        for id in &ids {
            self.0.take((group.vendor.clone(), group.kind.clone(), group.name.clone(), id.clone()));
        }
        ids
    }

    /// Releases the devices of an allocation.
    pub fn release(&mut self, resources: &AllocatedResources) {
        for key in keys(resources) {
            self.0.release(&key);
        }
    }

    fn has(&self, group: &NodeDeviceResource, id: &Str) -> bool {
        !self.0.is_empty() && self.0.has(&(group.vendor.clone(), group.kind.clone(), group.name.clone(), id.clone()))
    }
}

/// Whether the node has devices for all requests, if no allocation held any. Each request takes those of the first
/// group that has enough (first fit), whatever its affinities.
pub fn feasible(requests: &[Request], node: &Node) -> bool {
    let mut held = Held::default();
    requests.iter().all(|request| {
        let fits = |group: &&NodeDeviceResource| request.matches(group) && request.has_enough(group, &held);
        let Some(group) = groups(node).find(fits) else { return false };
        held.take_free(group, request);
        true
    })
}

/// Whether the node has no device at all for one of the requests, healthy or not. All nodes of its class lack it too.
pub fn lacks(requests: &[Request], node: &Node) -> bool {
    // Ids may differ between the nodes of a class.
    let of_class = |constraint: &Constraint| constraint.l_target != IDS && constraint.r_target != IDS;
    requests.iter().any(|request| !groups(node).any(|group| request.satisfied_by(group, of_class)))
}

/// Finds devices for the requests of a task and adds them to `held`; `Err` is the reason.
pub fn assign(requests: &[Request], node: &Node, held: &mut Held) -> Result<Offer, &'static str> {
    let mut offer = Offer::default();
    for request in requests {
        let (devices, matched) = give(request, node, held)?;
        offer.devices.push(devices);
        offer.matched += matched;
        offer.weights += request.weights();
    }
    Ok(offer)
}

/// Devices for one request, from the group with the best affinities; of equal groups the last one is taken.
fn give(request: &Request, node: &Node, held: &mut Held) -> Result<(AllocatedDeviceResource, f64), &'static str> {
    if request.count == 0 {
        return Err("invalid request of zero devices");
    }
    if groups(node).next().is_none() {
        return Err("no devices available");
    }
    let mut best: Option<(&NodeDeviceResource, f64)> = None;
    for group in groups(node).filter(|group| request.matches(group)) {
        let matched = request.matched(group);
        if best.is_none_or(|(_, most)| matched >= most) && request.has_enough(group, held) {
            best = Some((group, matched));
        }
    }
    let (group, matched) = best.ok_or("no devices match request")?;
    let devices = AllocatedDeviceResource {
        vendor: group.vendor.clone(),
        kind: group.kind.clone(),
        name: group.name.clone(),
        device_ids: Some(held.take_free(group, request)),
    };
    Ok((devices, matched))
}

fn groups(node: &Node) -> impl Iterator<Item = &NodeDeviceResource> {
    node.node_resources.iter().flat_map(|resources| resources.devices.iter().flatten())
}

fn keys(resources: &AllocatedResources) -> impl Iterator<Item = (Str, Str, Str, Str)> {
    let devices = resources.tasks.iter().flatten().flat_map(|(_, task)| task.devices.iter().flatten());
    devices.flat_map(|given| {
        let key = |id: &Str| (given.vendor.clone(), given.kind.clone(), given.name.clone(), id.clone());
        given.device_ids.iter().flatten().map(key)
    })
}

fn relation_holds(group: &NodeDeviceResource, left: &str, operand: &str, right: &str) -> bool {
    holds(operand, resolve(left, group).as_ref(), resolve(right, group).as_ref())
}

/// Value of a target for a group of devices: `${device..}` reads a property, any other text is itself.
fn resolve(target: &str, group: &NodeDeviceResource) -> Option<Value> {
    let Some(inside) = target.strip_prefix("${") else { return Some(Value::parse(target)) };
    match inside.strip_suffix('}').unwrap_or(inside) {
        "device.ids" => {
            let ids: Vec<&str> = group.instances.iter().flatten().map(|device| device.id.as_str()).collect();
            Some(Value::Text(ids.join(",").into()))
        }
        "device.model" => Some(Value::Text(group.name.clone())),
        "device.vendor" => Some(Value::Text(group.vendor.clone())),
        "device.type" => Some(Value::Text(group.kind.clone())),
        name => group.attributes.as_ref()?.get(name.strip_prefix("device.attr.")?).and_then(Value::of),
    }
}

#[cfg(test)]
mod tests;
