//! Computed class of a node: nodes that are equal to the scheduler's feasibility checks share a class. Only equality
//! of the number matters. Values that identify a single node (its id, its name, `unique.` keys) are not included.

use std::collections::BTreeMap;

use crate::{DeviceAttribute, Node, Str};

/// Prefix of keys that identify a single node.
const UNIQUE: &str = "unique.";
/// List of the signals that a node knows. Nomad's agents report it in random order.
const SIGNALS: &str = "os.signals";

impl Node {
    /// The class of the node in its current state: `v1:` and a number.
    pub fn compute_class(&self) -> Str {
        let mut input = Input::default();
        input.text(&self.datacenter);
        input.text(&self.node_class);
        input.text(&self.node_pool);
        input.map(self.attributes.as_deref());
        input.map(self.meta.as_ref());
        let devices = self.node_resources.as_ref().and_then(|resources| resources.devices.as_ref());
        for device in devices.into_iter().flatten() {
            input.text(&device.vendor);
            input.text(&device.kind);
            input.text(&device.name);
            for (key, value) in device.attributes.iter().flatten().filter(|(key, _)| !key.starts_with(UNIQUE)) {
                input.text(key);
                input.attribute(value);
            }
            input.end();
        }
        // Whether a node has the network that a group asks for is decided for its whole class.
        let resources = self.node_resources.as_deref();
        for network in resources.and_then(|resources| resources.node_networks.as_ref()).into_iter().flatten() {
            input.text(&network.mode);
            network.addresses.iter().flatten().for_each(|address| input.text(&address.alias));
            input.end();
        }
        for network in resources.and_then(|resources| resources.networks.as_ref()).into_iter().flatten() {
            input.text(&network.mode);
            input.text(if network.ip.is_empty() { "" } else { "address" });
        }
        let hash = blake3::hash(&input.0);
        let mut number = [0; 8];
        number.copy_from_slice(&hash.as_bytes()[..8]);
        format!("v1:{}", u64::from_le_bytes(number)).into()
    }
}

/// Hash input: every part with its length, so that different inputs never produce the same bytes.
#[derive(Default)]
struct Input(Vec<u8>);

impl Input {
    fn text(&mut self, text: &str) {
        self.0.push(1);
        self.0.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn end(&mut self) {
        self.0.push(0);
    }

    fn map(&mut self, map: Option<&BTreeMap<Str, Str>>) {
        for (key, value) in map.into_iter().flatten().filter(|(key, _)| !key.starts_with(UNIQUE)) {
            self.text(key);
            if key == SIGNALS {
                let mut signals: Vec<&str> = value.split(',').collect();
                signals.sort_unstable();
                self.text(&signals.join(","));
            } else {
                self.text(value);
            }
        }
        self.end();
    }

    fn attribute(&mut self, value: &DeviceAttribute) {
        let parts = [
            value.float.map(|float| float.to_bits().to_string()),
            value.int.map(|int| int.to_string()),
            value.string.as_ref().map(Str::to_string),
            value.bool.map(|truth| truth.to_string()),
        ];
        for part in parts {
            match part {
                Some(part) => self.text(&part),
                None => self.end(),
            }
        }
        self.text(&value.unit);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{NodeDeviceResource, NodeId, NodeResources};

    fn node(attributes: &[(&str, &str)]) -> Node {
        let attributes = attributes.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect();
        Node { attributes: Some(Arc::new(attributes)), ..Default::default() }
    }

    #[test]
    fn unique_node_attributes_do_not_change_the_computed_class() {
        let mut one = node(&[("arch", "x86"), ("unique.hostname", "a")]);
        let other = node(&[("arch", "x86"), ("unique.hostname", "b")]);
        one.id = NodeId::from_bytes([7; 16]);
        one.name = "a".into();
        assert_eq!(one.compute_class(), other.compute_class());
    }

    #[test]
    fn order_of_the_signals_does_not_count() {
        let class = |signals: &str| node(&[("os.signals", signals)]).compute_class();
        assert_eq!(class("SIGHUP,SIGINT"), class("SIGINT,SIGHUP"));
        assert_ne!(class("SIGHUP,SIGINT"), class("SIGHUP"));
    }

    #[test]
    fn attributes_meta_and_devices_change_the_computed_class() {
        let plain = node(&[("arch", "x86")]);
        let mut with_device = plain.clone();
        with_device.node_resources = Some(Arc::new(NodeResources {
            devices: Some(vec![NodeDeviceResource { name: "gpu".into(), ..Default::default() }]),
            ..Default::default()
        }));
        let mut with_meta = plain.clone();
        with_meta.meta = Some(BTreeMap::from([("rack".into(), "r1".into())]));
        let other = node(&[("arch", "arm")]);
        let classes: std::collections::BTreeSet<Str> =
            [&plain, &with_device, &with_meta, &other].into_iter().map(Node::compute_class).collect();
        assert_eq!(classes.len(), 4);
    }

    #[test]
    fn computed_class_distinguishes_attributes_from_meta() {
        let by_meta = Node { meta: Some(BTreeMap::from([("a".into(), "b".into())])), ..Default::default() };
        assert_ne!(by_meta.compute_class(), node(&[("a", "b")]).compute_class());
    }
}
