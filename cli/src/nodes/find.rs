//! Nodes by their ids.

use serde_json::Value;

use super::list::{Columns, table};
use crate::client::{Client, text};
use crate::exit::{Failure, Tried};
use crate::ids::{self, Kind};

fn rows(found: &[Value]) -> String {
    table(found, &Columns::default(), None)
}

/// Id of the node whose id begins so, for a command that changes something of it; with `own` that of the agent's.
pub(super) async fn id_of(client: &Client, typed: Option<&str>, own: bool) -> Result<String, Failure> {
    let kind = Kind { list: "/v1/nodes", tried: "Error toggling node", noun: "node", none: None, nouns: "nodes", rows };
    find(client, &kind, typed, own).await
}

/// Same as [`id_of`], for a command that shows the node.
pub(super) async fn id_of_shown(client: &Client, typed: Option<&str>, own: bool) -> Result<String, Failure> {
    let none = Some("No node(s) with prefix \"{}\" found");
    let kind = Kind { list: "/v1/nodes", tried: "Error querying node info", noun: "node", none, nouns: "nodes", rows };
    find(client, &kind, typed, own).await
}

async fn find(client: &Client, kind: &Kind<'_>, typed: Option<&str>, own: bool) -> Result<String, Failure> {
    if own {
        let info =
            client.get("/v1/agent/self").await.tried("Error querying agent info: failed querying self endpoint")?;
        let id = text(&info["stats"]["client"]["node_id"]);
        if id.is_empty() {
            return Err(Failure::new("Error querying agent info: the agent has no node"));
        }
        return Ok(id.to_owned());
    }
    let typed = typed.ok_or_else(|| Failure::arguments("Node ID must be specified if -self isn't being used"))?;
    Ok(text(&ids::by_uuid(client, kind, typed).await?["ID"]).to_owned())
}
