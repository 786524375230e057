//! Answers of Consul as values of templates: keys, instances of services, nodes. Each type is read from the JSON of
//! Consul's API.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};

use super::nomad::tags;
use crate::template::value::text_of_bytes;
use crate::template::{Map, Value};

type Texts = BTreeMap<String, String>;

/// A key with its value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Pair {
    key: String,
    #[serde(deserialize_with = "or_default")]
    value: String,
    create_index: u64,
    modify_index: u64,
    lock_index: u64,
    flags: u64,
    session: String,
}

impl Pair {
    /// The value of the key, as text.
    ///
    /// # Errors
    /// The value is not in the notation of Consul.
    pub fn text(&self) -> Result<String, String> {
        let bytes = STANDARD.decode(&self.value).map_err(|error| format!("the value of {}: {error}", self.key))?;
        Ok(text_of_bytes(&bytes))
    }

    /// An element of the values of `ls` and `tree`, whose keys have this prefix.
    ///
    /// # Errors
    /// As for [`Self::text`].
    pub fn value(&self, prefix: &str) -> Result<Value, String> {
        let key = self.key.strip_prefix(prefix).unwrap_or(&self.key).trim_start_matches('/');
        Ok(Value::record(
            "*dependency.KeyPair",
            vec![
                ("Path", Value::text(&self.key)),
                ("Key", Value::text(key)),
                ("Value", Value::text(self.text()?)),
                ("CreateIndex", Value::Uint(self.create_index)),
                ("ModifyIndex", Value::Uint(self.modify_index)),
                ("LockIndex", Value::Uint(self.lock_index)),
                ("Flags", Value::Uint(self.flags)),
                ("Session", Value::text(&self.session)),
            ],
        ))
    }
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Node {
    node: String,
    address: String,
    #[serde(rename = "ID")]
    id: String,
    datacenter: String,
    #[serde(deserialize_with = "or_default")]
    tagged_addresses: Texts,
    #[serde(deserialize_with = "or_default")]
    meta: Texts,
}

impl Node {
    /// An element of the value of `nodes`. Their order is that of the type.
    pub fn value(&self) -> Value {
        Value::record(
            "*dependency.Node",
            vec![
                ("ID", Value::text(&self.id)),
                ("Node", Value::text(&self.node)),
                ("Address", Value::text(&self.address)),
                ("Datacenter", Value::text(&self.datacenter)),
                ("TaggedAddresses", texts(&self.tagged_addresses)),
                ("Meta", texts(&self.meta)),
            ],
        )
    }
}

/// A service of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Service {
    #[serde(rename = "ID")]
    id: String,
    service: String,
    #[serde(deserialize_with = "or_default")]
    tags: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    meta: Texts,
    port: i64,
    address: String,
    #[serde(deserialize_with = "or_default")]
    tagged_addresses: BTreeMap<String, Address>,
    enable_tag_override: bool,
    weights: Weights,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Address {
    address: String,
    port: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Weights {
    passing: i64,
    warning: i64,
}

/// A node with its services.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeServices {
    node: Node,
    #[serde(deserialize_with = "or_default")]
    services: BTreeMap<String, Service>,
}

impl NodeServices {
    /// The value of `node`.
    pub fn value(&self) -> Value {
        let mut services: Vec<&Service> = self.services.values().collect();
        services.sort_by(|a, b| (&a.service, &a.id).cmp(&(&b.service, &b.id)));
        let service = |service: &Service| {
            Value::record(
                "*dependency.CatalogNodeService",
                vec![
                    ("ID", Value::text(&service.id)),
                    ("Service", Value::text(&service.service)),
                    ("Tags", sorted_tags(&service.tags)),
                    ("Meta", texts(&service.meta)),
                    ("Port", Value::Int(service.port)),
                    ("Address", Value::text(&service.address)),
                    ("EnableTagOverride", Value::Bool(service.enable_tag_override)),
                ],
            )
        };
        let services = services.into_iter().map(service).collect();
        node_services(self.node.value(), services)
    }

    /// The value of `node` for a node that Consul does not know.
    pub fn none() -> Value {
        node_services(Value::Nil, Vec::new())
    }
}

fn node_services(node: Value, services: Vec<Value>) -> Value {
    Value::record("*dependency.CatalogNode", vec![("Node", node), ("Services", Value::list(services))])
}

/// The value of `services`, of names with tags.
pub fn services(of: &BTreeMap<String, Vec<String>>) -> Value {
    let value = |(name, tags): (&String, &Vec<String>)| {
        Value::record("*dependency.CatalogSnippet", vec![("Name", Value::text(name)), ("Tags", sorted_tags(tags))])
    };
    Value::list(of.iter().map(value).collect())
}

/// An instance of a service, with its node and its checks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Instance {
    node: Node,
    service: Service,
    #[serde(deserialize_with = "or_default")]
    checks: Vec<Check>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Check {
    node: String,
    #[serde(rename = "CheckID")]
    check_id: String,
    name: String,
    status: String,
    notes: String,
    output: String,
    #[serde(rename = "ServiceID")]
    service_id: String,
    service_name: String,
}

impl Instance {
    /// The worst status of the checks.
    fn status(&self) -> &'static str {
        let maintained = |check: &Check| {
            check.check_id == "_node_maintenance" || check.check_id.starts_with("_service_maintenance:")
        };
        if self.checks.iter().any(maintained) {
            return "maintenance";
        }
        let worst = ["critical", "warning"].into_iter().find(|status| self.checks.iter().any(|c| c.status == *status));
        worst.unwrap_or("passing")
    }

    fn value(&self) -> Value {
        let (node, service) = (&self.node, &self.service);
        let address = if service.address.is_empty() { &node.address } else { &service.address };
        let addresses = service.tagged_addresses.iter().map(|(name, at)| {
            let fields = vec![("Address", Value::text(&at.address)), ("Port", Value::Int(at.port))];
            (name.as_str().into(), Value::record("api.ServiceAddress", fields))
        });
        let addresses = Map::new("api.ServiceAddress", Value::Nil, addresses.collect());
        let weights = &service.weights;
        Value::record(
            "*dependency.HealthService",
            vec![
                ("Node", Value::text(&node.node)),
                ("NodeID", Value::text(&node.id)),
                ("NodeAddress", Value::text(&node.address)),
                ("NodeDatacenter", Value::text(&node.datacenter)),
                ("NodeTaggedAddresses", texts(&node.tagged_addresses)),
                ("NodeMeta", texts(&node.meta)),
                ("ServiceMeta", texts(&service.meta)),
                ("Address", Value::text(address)),
                ("ServiceTaggedAddresses", Value::Map(Arc::new(addresses))),
                ("ID", Value::text(&service.id)),
                ("Name", Value::text(&service.service)),
                ("Tags", sorted_tags(&service.tags)),
                ("Checks", Value::list(self.checks.iter().map(Check::value).collect())),
                ("Status", Value::text(self.status())),
                ("Port", Value::Int(service.port)),
                (
                    "Weights",
                    Value::record(
                        "api.AgentWeights",
                        vec![("Passing", Value::Int(weights.passing)), ("Warning", Value::Int(weights.warning))],
                    ),
                ),
            ],
        )
    }
}

impl Check {
    fn value(&self) -> Value {
        Value::record(
            "*api.HealthCheck",
            vec![
                ("Node", Value::text(&self.node)),
                ("CheckID", Value::text(&self.check_id)),
                ("Name", Value::text(&self.name)),
                ("Status", Value::text(&self.status)),
                ("Notes", Value::text(&self.notes)),
                ("Output", Value::text(&self.output)),
                ("ServiceID", Value::text(&self.service_id)),
                ("ServiceName", Value::text(&self.service_name)),
            ],
        )
    }
}

/// The value of `service`: the instances with an accepted status, by node and id unless Consul sorted them by distance.
pub fn instances(mut of: Vec<Instance>, filters: &[String], by_distance: bool) -> Value {
    of.retain(|instance| filters.iter().any(|filter| filter == "any" || filter == instance.status()));
    if !by_distance {
        of.sort_by(|a, b| (&a.node.node, &a.service.id).cmp(&(&b.node.node, &b.service.id)));
    }
    Value::list(of.iter().map(Instance::value).collect())
}

fn sorted_tags(of: &[String]) -> Value {
    let mut of: Vec<&str> = of.iter().map(String::as_str).collect();
    of.sort_unstable();
    tags(of)
}

fn texts(of: &Texts) -> Value {
    let items = of.iter().map(|(key, text)| (key.as_str().into(), Value::text(text))).collect();
    Value::Map(Arc::new(Map::new("string", Value::text(""), items)))
}

/// A value that may be `null`.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
