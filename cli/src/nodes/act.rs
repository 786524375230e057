//! `node eligibility` and `node config`.

use clap::Args;
use serde_json::{Value, json};

use super::find::id_of;
use crate::client::{text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobs::lists::items;
use crate::{Context, General, outln};

/// Arguments of `node eligibility`.
#[derive(Args)]
pub(crate) struct Eligibility {
    #[command(flatten)]
    general: General,
    /// Let the node get new allocations.
    #[arg(long)]
    enable: bool,
    /// Let the node get no new allocations.
    #[arg(long)]
    disable: bool,
    /// Take the agent's own node.
    #[arg(long = "self")]
    own: bool,
    /// Id of the node, or its beginning.
    node: Option<String>,
}

impl crate::Run for Eligibility {
    async fn run(self, _: &Context) -> Outcome {
        if self.enable == self.disable {
            return Err(Failure::arguments("Either the '-enable' or '-disable' flag must be set"));
        }
        let client = self.general.client()?;
        let id = id_of(&client, self.node.as_deref(), self.own).await?;
        let word = if self.enable { "eligible" } else { "ineligible" };
        let body = json!({"NodeID": id, "Eligibility": word});
        let path = format!("/v1/node/{id}/eligibility");
        client.put(&path, &body).await.tried("Error updating scheduling eligibility")?;
        outln!("Node {id:?} scheduling eligibility set: {word} for scheduling");
        Ok(Exit::DONE)
    }
}

/// Arguments of `node config`.
#[derive(Args)]
pub(crate) struct Config {
    #[command(flatten)]
    general: General,
    /// Show the servers that the agent's node knows.
    #[arg(long)]
    servers: bool,
    /// Give the agent's node these servers.
    #[arg(long)]
    update_servers: bool,
    /// `host` or `host:port` of servers.
    addresses: Vec<String>,
}

impl crate::Run for Config {
    async fn run(self, _: &Context) -> Outcome {
        if self.servers == self.update_servers {
            return Err(Failure::arguments("The '-servers' or '-update-servers' flag(s) must be set"));
        }
        if self.update_servers && self.addresses.is_empty() {
            let words = "If the '-update-servers' flag is set, at least one server argument must be provided";
            return Err(Failure::arguments(words));
        }
        let client = self.general.client()?;
        if self.update_servers {
            let pairs: Vec<(&str, &str)> = self.addresses.iter().map(|address| ("address", address.as_str())).collect();
            let path = with_query("/v1/agent/servers", &pairs);
            client.put(&path, &Value::Null).await.tried("Error updating server list")?;
            return Ok(Exit::DONE);
        }
        let servers = client.get("/v1/agent/servers").await.tried("Error querying server list")?;
        items(&servers).iter().for_each(|server| outln!("{}", text(server)));
        Ok(Exit::DONE)
    }
}
