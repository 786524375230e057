//! `server`: who is in the cluster, joining one, taking out one that has failed.

use clap::Subcommand;
use serde_json::Value;

use crate::client::text;
use crate::{General, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the servers.
    Members {
        #[command(flatten)]
        target: General,
        /// Show everything that they tell of themselves.
        #[arg(long)]
        detailed: bool,
    },
    /// Make this server and others known to each other.
    Join {
        #[command(flatten)]
        target: General,
        /// `host` or `host:port` of other servers.
        #[arg(required = true)]
        addresses: Vec<String>,
    },
    /// Take a server out that has failed.
    ForceLeave {
        #[command(flatten)]
        target: General,
        /// Forget it altogether; it is what happens in any case.
        #[arg(long)]
        prune: bool,
        /// Its name, such as `host.global`.
        node: String,
    },
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Members { target, detailed } => {
            let api = target.client()?;
            let answer = api.get("/v1/agent/members").await?;
            let members: Vec<&Value> = answer["Members"].as_array().into_iter().flatten().collect();
            if detailed {
                let rows: Vec<_> = members.iter().map(|member| detailed_row(member)).collect();
                table::print(&["Name", "Address", "Port", "Tags"], &rows);
                return Ok(());
            }
            let leader = api.get("/v1/status/leader").await?;
            let rows: Vec<_> = members.iter().map(|member| row(member, text(&leader))).collect();
            table::print(
                &["Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"],
                &rows,
            );
            if text(&leader).is_empty() {
                crate::outln!("\nError determining leaders: No cluster leader");
            }
        }
        Command::Join { target, addresses } => {
            let query: String = addresses
                .iter()
                .map(|address| format!("{}address={address}", if *address == addresses[0] { '?' } else { '&' }))
                .collect();
            let answer = target.client()?.put(&format!("/v1/agent/join{query}"), &Value::Null).await?;
            let joined = answer["num_joined"].as_u64().unwrap_or(0);
            if joined == 0 {
                anyhow::bail!("Error joining: {}", text(&answer["error"]));
            }
            crate::outln!("Joined {joined} servers successfully");
        }
        Command::ForceLeave { target, prune, node } => {
            let prune = if prune { "&prune=true" } else { "" };
            target.client()?.put(&format!("/v1/agent/force-leave?node={node}{prune}"), &Value::Null).await?;
        }
    }
    Ok(())
}

fn row(member: &Value, leader: &str) -> Vec<String> {
    let tags = &member["Tags"];
    let (host, port) = (text(&tags["rpc_addr"]), text(&tags["port"]));
    let leads = leader == format!("{host}:{port}");
    vec![
        text(&member["Name"]).to_owned(),
        text(&member["Addr"]).to_owned(),
        member["Port"].to_string(),
        text(&member["Status"]).to_owned(),
        leads.to_string(),
        text(&tags["raft_vsn"]).to_owned(),
        text(&tags["build"]).to_owned(),
        text(&tags["dc"]).to_owned(),
        text(&tags["region"]).to_owned(),
    ]
}

fn detailed_row(member: &Value) -> Vec<String> {
    let tags = member["Tags"].as_object().into_iter().flatten().map(|(name, value)| format!("{name}={}", text(value)));
    vec![
        text(&member["Name"]).to_owned(),
        text(&member["Addr"]).to_owned(),
        member["Port"].to_string(),
        tags.collect::<Vec<_>>().join(","),
    ]
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
