//! Volumes and networks of a node.

use serde_json::Value;

use super::keys;
use crate::client::{Client, text, with_query};
use crate::jobs::lists::items;
use crate::layout::{list, section};

/// Prints the directories of the host that jobs may mount.
pub(super) fn host(node: &Value) {
    let volumes: Vec<_> = keys(&node["HostVolumes"])
        .into_iter()
        .map(|name| {
            let volume = &node["HostVolumes"][name];
            vec![name.to_owned(), (volume["ReadOnly"] == true).to_string(), text(&volume["Path"]).to_owned()]
        })
        .collect();
    if !volumes.is_empty() {
        section("Host Volumes", &list(&["Name", "ReadOnly", "Source"], &volumes));
    }
}

/// Prints the networks of the host.
pub(super) fn networks(node: &Value) {
    let networks: Vec<_> = keys(&node["HostNetworks"])
        .into_iter()
        .map(|name| {
            let network = &node["HostNetworks"][name];
            let word = |key: &str| text(&network[key]).to_owned();
            vec![name.to_owned(), word("CIDR"), word("Interface"), word("ReservedPorts")]
        })
        .collect();
    if !networks.is_empty() {
        section("Host Networks", &list(&["Name", "CIDR", "Interface", "ReservedPorts"], &networks));
    }
}

/// The CSI volumes that allocations of the node hold, by name. Empty if they cannot be read: the rest is known without
/// them.
pub(super) async fn csi(client: &Client, node: &str) -> Vec<Value> {
    let everywhere = client.with_scope(None, Some("*"));
    let path = with_query("/v1/volumes", &[("type", "csi"), ("node_id", node)]);
    let mut found = items(&everywhere.get(&path).await.unwrap_or_default()).to_vec();
    found.sort_by_key(|volume| (name(volume).to_owned(), text(&volume["Namespace"]).to_owned()));
    found
}

fn name(volume: &Value) -> &str {
    let name = text(&volume["Name"]);
    if name.is_empty() { text(&volume["ID"]) } else { name }
}

/// Names of volumes in one line.
pub(super) fn names(volumes: &[Value]) -> String {
    volumes.iter().map(name).collect::<Vec<_>>().join(",")
}

/// Prints CSI volumes, if there are any.
pub(super) fn print_csi(volumes: &[Value]) {
    if !volumes.is_empty() {
        section("CSI Volumes", &described(volumes));
    }
}

fn described(volumes: &[Value]) -> String {
    let row = |volume: &Value| {
        let word = |key: &str| text(&volume[key]).to_owned();
        let schedulable = (volume["Schedulable"] == true).to_string();
        let (provider, mode) = (word("Provider"), word("AccessMode"));
        vec![word("ID"), word("Name"), word("Namespace"), word("PluginID"), schedulable, provider, mode]
    };
    let headings = ["ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Provider", "Access Mode"];
    list(&headings, &volumes.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn csi_volumes_have_names_in_the_block_and_a_table() {
        let volumes = [
            json!({ "ID": "a", "Name": "data", "Namespace": "default", "PluginID": "nfs", "Schedulable": true,
                    "Provider": "org.nfs", "AccessMode": "single-node-writer" }),
            json!({ "ID": "b", "Name": "", "Namespace": "one", "PluginID": "nfs", "Schedulable": false }),
        ];
        assert_eq!(names(&volumes), "data,b");
        expect![[r#"
            ID  Name    Namespace  Plugin ID  Schedulable  Provider  Access Mode
            a   data    default    nfs        true         org.nfs   single-node-writer
            b   <none>  one        nfs        false        <none>    <none>"#]]
        .assert_eq(&described(&volumes));
    }
}
