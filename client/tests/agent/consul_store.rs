//! Keys and catalogue of the Consul agent in this process: what templates ask for. Not here: services of the agent
//! itself.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The state that templates see.
pub struct Store {
    /// Index of the last change.
    pub index: u64,
    pub keys: BTreeMap<String, String>,
    /// Instances by the name of their service, as the health endpoint has them.
    pub instances: BTreeMap<String, Vec<Value>>,
    /// Names of nodes with their addresses.
    pub nodes: BTreeMap<String, String>,
    pub asked: Vec<String>,
}

impl Default for Store {
    fn default() -> Self {
        let nodes = [("c1", "10.0.0.1"), ("c2", "10.0.0.2")];
        let nodes = nodes.into_iter().map(|(name, address)| (name.to_owned(), address.to_owned())).collect();
        Self { index: 1, keys: BTreeMap::new(), instances: BTreeMap::new(), nodes, asked: Vec::new() }
    }
}

impl Store {
    pub fn put(&mut self, key: &str, text: &str) {
        self.keys.insert(key.to_owned(), text.to_owned());
    }

    /// Adds an instance on a node, with the status of its only check.
    pub fn add(&mut self, service: &str, id: &str, node: &str, status: &str) {
        let instance = json!({
            "Node": self.node(node),
            "Service": {
                "ID": id, "Service": service, "Tags": ["v2", "main"], "Address": "", "Port": 5432,
                "Meta": {"rack": "r1"}, "Weights": {"Passing": 1, "Warning": 1},
            },
            "Checks": [{"CheckID": id, "Name": "alive", "Status": status, "ServiceID": id}],
        });
        self.instances.entry(service.to_owned()).or_default().push(instance);
    }

    fn node(&self, name: &str) -> Value {
        json!({
            "ID": "", "Node": name, "Address": self.nodes[name], "Datacenter": "east", "TaggedAddresses": null,
            "Meta": {"os": "linux"},
        })
    }

    /// Answers a read. `path` begins with `/v1/`.
    pub fn answer(&mut self, path: &str, query: &str) -> (StatusCode, String) {
        self.asked.push(format!("{path}?{query}"));
        let has = |part: &str| query.split('&').any(|pair| pair == part);
        let found = match path.trim_start_matches("/v1/").split_once('/').unwrap_or_default() {
            ("kv", "denied") => return (StatusCode::FORBIDDEN, "Permission denied".to_owned()),
            ("kv", key) => {
                let all = has("recurse=true");
                let of = self.keys.iter().filter(|(name, _)| if all { name.starts_with(key) } else { *name == key });
                let pairs: Vec<Value> = of.map(|(name, text)| self.pair(name, text)).collect();
                (!pairs.is_empty()).then_some(json!(pairs))
            }
            ("health", of) => {
                let name = of.rsplit('/').next().unwrap_or_default();
                let mut found = self.instances.get(name).cloned().unwrap_or_default();
                found.retain(|instance| !has("passing=1") || instance["Checks"][0]["Status"] == "passing");
                Some(json!(found))
            }
            ("catalog", "services") => {
                let names: BTreeMap<&String, Value> =
                    self.instances.iter().map(|(name, of)| (name, of[0]["Service"]["Tags"].clone())).collect();
                Some(json!(names))
            }
            ("catalog", "nodes") => Some(json!(self.nodes.keys().map(|name| self.node(name)).collect::<Vec<_>>())),
            ("catalog", "datacenters") => Some(json!(["east", "west"])),
            ("catalog", of) => {
                let name = of.trim_start_matches("node/");
                let services = self.instances.values().flatten().filter(|instance| instance["Node"]["Node"] == name);
                let services: BTreeMap<String, Value> = services
                    .map(|instance| (instance["Service"]["ID"].to_string(), instance["Service"].clone()))
                    .collect();
                let node = self.nodes.contains_key(name).then(|| self.node(name));
                Some(node.map_or(Value::Null, |node| json!({"Node": node, "Services": services})))
            }
            _ => None,
        };
        match found {
            Some(value) => (StatusCode::OK, value.to_string()),
            None => (StatusCode::NOT_FOUND, String::new()),
        }
    }

    fn pair(&self, name: &str, text: &str) -> Value {
        json!({
            "Key": name, "Value": (!text.is_empty()).then(|| STANDARD.encode(text)), "CreateIndex": 1,
            "ModifyIndex": self.index, "LockIndex": 0, "Flags": 7,
        })
    }
}
