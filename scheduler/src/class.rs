//! The computed class of a node: nodes of one class pass the same constraints, so that checking one of them is enough.

use std::collections::BTreeMap;

use songline_model::{Node, Str};

/// Keys that start so differ from node to node and are left out of the class.
const UNIQUE: &str = "unique.";

/// The class of a node. Its id, name, status, drivers, resources and volumes do not matter; devices do, but not their instances.
pub fn computed_class(node: &Node) -> Str {
    let mut hasher = Fields(blake3::Hasher::new());
    hasher.text(&node.datacenter);
    hasher.text(&node.node_class);
    hasher.text(&node.node_pool);
    hasher.map(node.attributes.as_deref());
    hasher.map(node.meta.as_ref());
    for device in node.node_resources.iter().filter_map(|resources| resources.devices.as_ref()).flatten() {
        hasher.text(&device.vendor);
        hasher.text(&device.kind);
        hasher.text(&device.name);
        for (key, value) in device.attributes.iter().flatten().filter(|(key, _)| !key.starts_with(UNIQUE)) {
            hasher.text(key);
            hasher.text(&format!("{value:?}"));
        }
    }
    let digest = hasher.0.finalize();
    let mut number = [0; 8];
    number.copy_from_slice(&digest.as_bytes()[..8]);
    Str::from(format!("v1:{}", u64::from_be_bytes(number)))
}

/// Whether a constraint on this target tells apart nodes of one class.
pub fn escapes_class(target: &str) -> bool {
    ["${node.unique.", "${attr.unique.", "${meta.unique."].iter().any(|prefix| target.starts_with(prefix))
}

/// Hashes fields with their lengths, so that moving a letter from one to the next changes the result.
struct Fields(blake3::Hasher);

impl Fields {
    fn text(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
    }

    fn map(&mut self, map: Option<&BTreeMap<Str, Str>>) {
        for (key, value) in map.into_iter().flatten().filter(|(key, _)| !key.starts_with(UNIQUE)) {
            self.text(key);
            self.text(value);
        }
        self.0.update(b"\0end");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use songline_model::{Node, NodeDevice, NodeDeviceResource, NodeResources, Str};

    use super::computed_class;

    fn node(change: impl FnOnce(&mut Node)) -> Str {
        let mut node = Node { datacenter: "dc1".into(), ..Node::default() };
        node.attributes = Some(Arc::new([("kernel.name".into(), "linux".into()), ("unique.hostname".into(), "a".into())].into()));
        change(&mut node);
        computed_class(&node)
    }

    fn with_device(name: &str, instance: &str) -> Str {
        node(|node| {
            let device = NodeDeviceResource {
                name: name.into(),
                instances: Some(vec![NodeDevice { id: instance.into(), ..NodeDevice::default() }]),
                ..NodeDeviceResource::default()
            };
            node.node_resources = Some(Arc::new(NodeResources { devices: Some(vec![device]), ..NodeResources::default() }));
        })
    }

    #[test]
    fn what_is_unique_to_a_node_does_not_matter() {
        let one = node(|_| {});
        let other = node(|node| {
            node.name = "other".into();
            node.attributes = Some(Arc::new([("kernel.name".into(), "linux".into()), ("unique.hostname".into(), "b".into())].into()));
        });
        assert_eq!(one, other);
        assert_ne!(one, node(|node| node.datacenter = "dc2".into()));
        assert_ne!(one, node(|node| node.meta = Some([("rack".into(), "r1".into())].into())));
    }

    #[test]
    fn device_models_matter_and_their_instances_do_not() {
        assert_eq!(with_device("k80", "a"), with_device("k80", "b"));
        assert_ne!(with_device("k80", "a"), with_device("p100", "a"));
    }
}
