//! The node's attributes about its Consul agent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use songline_model::Str;

use super::agent::{Agent, CallError};

/// Interval at which the agent is asked about itself.
pub(crate) const PERIOD: Duration = Duration::from_secs(15);

/// Attributes and link of a node with a Consul agent. A Consul agent that is away changes nothing: its services are still
/// known to the other agents, and it is usually back soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Print {
    /// Attributes of the node.
    pub attributes: BTreeMap<Str, Str>,
    /// Value of the node's link `consul`.
    pub link: Option<Str>,
}

/// Asks the agent about itself.
pub(crate) async fn print(agent: &Agent) -> Result<Print, CallError> {
    agent.about_itself().await.map(|about| read(&about))
}

fn read(about: &Value) -> Print {
    let text = |path: &str| about.pointer(path).and_then(Value::as_str).map(Str::new);
    let flag = |path: &str| about.pointer(path).and_then(Value::as_bool).map(|flag| Str::from(flag.to_string()));
    let version = text("/Config/Version");
    let enterprise = version.as_ref().is_some_and(|version| version.contains("+ent"));
    let sku = version.as_ref().map(|_| Str::new_static(if enterprise { "ent" } else { "oss" }));
    // Without TLS on its port, -1 means that the agent does not serve gRPC.
    let port = |path: &str| about.pointer(path).and_then(Value::as_i64).filter(|port| *port != 0);
    let grpc = port("/DebugConfig/GRPCPort").filter(|port| *port > 0);
    let grpc = grpc.or_else(|| port("/DebugConfig/GRPCTLSPort")).unwrap_or(-1);
    let features = text("/Stats/license/features").unwrap_or_default();
    let namespaces = features.split(',').any(|feature| feature.trim() == "Namespaces");
    let (datacenter, name) = (text("/Config/Datacenter"), text("/Config/NodeName"));
    let link = datacenter.as_ref().zip(name.as_ref()).map(|(datacenter, name)| format!("{datacenter}.{name}").into());
    let found = [
        ("consul.server", flag("/Config/Server")),
        ("consul.version", version),
        ("consul.sku", sku),
        ("consul.revision", text("/Config/Revision")),
        ("unique.consul.name", name),
        ("consul.datacenter", datacenter),
        ("consul.segment", text("/Member/Tags/segment")),
        ("consul.connect", flag("/DebugConfig/ConnectEnabled")),
        ("consul.grpc", Some(grpc.to_string().into())),
        ("consul.ft.namespaces", Some(namespaces.to_string().into())),
    ];
    let known = found.into_iter().filter_map(|(key, value)| Some((Str::new_static(key), value?)));
    Print { attributes: known.filter(|(_, value)| !value.is_empty()).collect(), link }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn attributes_are_those_of_the_reference() {
        let about = json!({
            "Config": { "Datacenter": "dc1", "NodeName": "n1", "Server": true, "Version": "1.16.6", "Revision": "ab" },
            "DebugConfig": { "ConnectEnabled": true, "GRPCPort": 8502, "GRPCTLSPort": 8503 },
            "Member": { "Tags": { "segment": "" } },
        });
        let print = read(&about);
        let told: Vec<String> = print.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            told.join(" "),
            "consul.connect=true consul.datacenter=dc1 consul.ft.namespaces=false consul.grpc=8502 \
             consul.revision=ab consul.server=true consul.sku=oss consul.version=1.16.6 unique.consul.name=n1"
        );
        assert_eq!(print.link.as_deref(), Some("dc1.n1"));
        let bare = read(&json!({ "DebugConfig": { "GRPCPort": -1, "GRPCTLSPort": -1 } }));
        assert_eq!(bare.attributes.get("consul.grpc").map(Str::as_str), Some("-1"));
        assert_eq!(bare.link, None);
    }
}
