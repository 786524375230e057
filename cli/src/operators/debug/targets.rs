//! Servers and nodes whose agents are captured.

use serde_json::Value;

use super::flags::Debug;
use crate::client::{Client, text, with_query};
use crate::exit::{Failure, Tried};
use crate::jobs::lists::items;

/// Agents that were chosen, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// Region of the asked agent.
    pub(super) region: String,
    /// Names of servers.
    pub(super) servers: Vec<String>,
    pub(super) servers_all: usize,
    /// Ids of nodes.
    pub(super) nodes: Vec<String>,
    pub(super) nodes_all: usize,
}

impl Targets {
    pub(super) async fn choose(client: &Client, flags: &Debug) -> Result<Self, Failure> {
        let members = client.get("/v1/agent/members").await.tried("Failed to retrieve server list; err")?;
        let leader = client.get("/v1/status/leader").await.unwrap_or_default();
        let stale = if flags.stale { "true" } else { "" };
        let nodes = client.get(&with_query("/v1/nodes", &[("stale", stale)])).await;
        let nodes = nodes.tried("Error querying node info")?;
        let (servers, servers_all) = servers(&members["Members"], text(&leader), &flags.server_id)?;
        let (nodes, nodes_all) = chosen_nodes(&nodes, flags)?;
        if servers.is_empty() && nodes.is_empty() {
            return Err(Failure::new("Failed to retrieve clients, 0 nodes and 0 servers were chosen"));
        }
        Ok(Self { region: text(&members["ServerRegion"]).to_owned(), servers, servers_all, nodes, nodes_all })
    }
}

/// Words of a list with commas between.
fn words(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

fn servers(members: &Value, leader: &str, wanted: &str) -> Result<(Vec<String>, usize), Failure> {
    let name = |member: &Value| text(&member["Name"]).to_owned();
    let members = items(members);
    let leads = |member: &&Value| {
        let tags = &member["Tags"];
        format!("{}:{}", text(&tags["rpc_addr"]), text(&tags["port"])) == leader
    };
    let mut found: Vec<String> = Vec::new();
    for word in words(wanted) {
        let matching: Vec<String> = match word {
            "all" => members.iter().map(name).collect(),
            "leader" => members.iter().filter(leads).map(name).collect(),
            word => members
                .iter()
                .filter(|member| {
                    let whole = text(&member["Name"]);
                    whole == word || whole.split('.').next() == Some(word) || text(&member["Tags"]["id"]) == word
                })
                .map(name)
                .collect(),
        };
        if matching.is_empty() && word != "all" {
            return Err(Failure::new(format!("No server(s) with name or id {word:?} found")));
        }
        found.extend(matching);
    }
    found.sort_unstable();
    found.dedup();
    Ok((found, members.len()))
}

fn chosen_nodes(nodes: &Value, flags: &Debug) -> Result<(Vec<String>, usize), Failure> {
    let id = |node: &Value| text(&node["ID"]).to_owned();
    let is_wanted = |node: &&Value| flags.node_class.is_empty() || text(&node["NodeClass"]) == flags.node_class;
    let nodes: Vec<&Value> = items(nodes).iter().filter(is_wanted).collect();
    let mut found: Vec<String> = Vec::new();
    for word in words(&flags.node_id) {
        let matching: Vec<String> = match word {
            "all" => nodes.iter().map(|node| id(node)).collect(),
            prefix => nodes
                .iter()
                .filter(|node| text(&node["ID"]).starts_with(prefix) || text(&node["Name"]) == prefix)
                .map(|node| id(node))
                .collect(),
        };
        if matching.is_empty() && word != "all" {
            return Err(Failure::new(format!("No node(s) with prefix {word:?} found")));
        }
        found.extend(matching.into_iter().filter(|id| !found.contains(id)).collect::<Vec<_>>());
    }
    if let Ok(most) = usize::try_from(flags.max_nodes)
        && most > 0
    {
        found.truncate(most);
    }
    Ok((found, nodes.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_found_by_name_id_and_leadership() {
        let members = json!([
            { "Name": "a.global", "Tags": { "id": "1", "rpc_addr": "10.0.0.1", "port": "4647" } },
            { "Name": "b.global", "Tags": { "id": "2", "rpc_addr": "10.0.0.2", "port": "4647" } },
        ]);
        let found = |wanted| {
            servers(&members, "10.0.0.2:4647", wanted)
                .map(|(found, _)| found.join(" "))
                .map_err(|it| it.message().to_owned())
        };
        assert_eq!(found("all"), Ok("a.global b.global".to_owned()));
        assert_eq!(found("leader,b"), Ok("b.global".to_owned()));
        assert_eq!(found("1,b.global"), Ok("a.global b.global".to_owned()));
        assert_eq!(found(""), Ok(String::new()));
        assert_eq!(found("c"), Err("No server(s) with name or id \"c\" found".to_owned()));
    }
}
