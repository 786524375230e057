//! Ports of a container that the engine publishes on addresses of this machine. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use songline_model::{AllocatedPortMapping, Str};

use crate::driver::{TaskConfig, block, texts};

/// Published ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// Host addresses by `PORT/PROTOCOL` of the container.
    at: BTreeMap<String, Vec<(String, i64)>>,
    /// Ports of the container by their labels.
    pub labels: BTreeMap<Str, i64>,
}

/// The ports of a task. With `ports` they are ports of the group; without, and with a network of the task itself, all
/// of that network, with `port_map` as the ports inside.
pub(super) fn published(task: &TaskConfig) -> Result<Published, String> {
    let labels = texts(&task.config, "ports");
    let inside = block::map(&task.config, "port_map");
    let mut published = Published::default();
    // In a namespace that the agent made, the agent maps the ports.
    if task.network.is_some() {
        return Ok(published);
    }
    for label in &labels {
        let port = task.ports.iter().find(|port| port.label == label.as_str());
        let port = port.ok_or_else(|| format!("Port {label:?} not found, check network block"))?;
        published.add(port, if port.to > 0 { port.to } else { port.value });
    }
    if !labels.is_empty() {
        return Ok(published);
    }
    if task.own_ports.is_empty() && !inside.is_empty() {
        return Err("Trying to map ports but no network interface is available".to_owned());
    }
    for port in &task.own_ports {
        let mapped = inside.get(port.label.as_str()).and_then(|told| told.parse().ok());
        published.add(port, mapped.unwrap_or(port.value));
    }
    Ok(published)
}

impl Published {
    fn add(&mut self, port: &AllocatedPortMapping, inside: i64) {
        self.labels.insert(port.label.clone(), inside);
        for protocol in ["tcp", "udp"] {
            let at = (port.host_ip.to_string(), port.value);
            self.at.entry(format!("{inside}/{protocol}")).or_default().push(at);
        }
    }

    /// The ports as a container's `ExposedPorts`.
    pub fn exposed(&self) -> Value {
        self.at.keys().map(|port| (port.clone(), json!({}))).collect::<serde_json::Map<_, _>>().into()
    }

    /// The ports as a container's `PortBindings`.
    pub fn bindings(&self) -> Value {
        let binding = |(ip, port): &(String, i64)| json!({"HostIp": ip, "HostPort": port.to_string()});
        let all = |at: &Vec<(String, i64)>| at.iter().map(binding).collect::<Value>();
        self.at.iter().map(|(port, at)| (port.clone(), all(at))).collect::<serde_json::Map<_, _>>().into()
    }
}
