//! `operator raft`, `operator autopilot` and `operator gossip`: who votes and leads, how the servers look after
//! themselves, and the key that they know each other by.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use songline_server::config::EncryptKey;

use super::http::{Api, text};
use super::{Target, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Members of the log's replication: list-peers, remove-peer, transfer-leadership.
    #[command(subcommand)]
    Raft(Raft),
    /// How the servers look after themselves: get-config, set-config, health.
    #[command(subcommand)]
    Autopilot(Autopilot),
    /// The key that servers know each other by: keyring.
    #[command(subcommand)]
    Gossip(Gossip),
}

#[derive(Subcommand)]
pub(crate) enum Gossip {
    /// The key of `server { encrypt }`: generate.
    #[command(subcommand)]
    Keyring(GossipKeyring),
}

#[derive(Subcommand)]
pub(crate) enum GossipKeyring {
    /// Print a new key, which every server of a cluster gets as `encrypt`.
    Generate,
}

#[derive(Subcommand)]
pub(crate) enum Raft {
    /// Show the servers.
    ListPeers {
        #[command(flatten)]
        target: Target,
        /// Ask this server, even when it does not lead.
        #[arg(long)]
        stale: bool,
    },
    /// Take a server out.
    RemovePeer {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        peer: Peer,
    },
    /// Let another server lead; without a name, the one that has most of the log.
    TransferLeadership {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        peer: Peer,
    },
}

/// A server by its id or address.
#[derive(Args)]
pub(crate) struct Peer {
    /// The server's id.
    #[arg(long, conflicts_with = "peer_address")]
    peer_id: Option<String>,
    /// `host:port` of the server.
    #[arg(long)]
    peer_address: Option<String>,
}

impl Peer {
    /// Parameters, and words for people.
    fn named(&self) -> Option<(String, String)> {
        match (&self.peer_id, &self.peer_address) {
            (Some(id), _) => Some((format!("?id={id}"), format!("id {id:?}"))),
            (None, Some(address)) => Some((format!("?address={address}"), format!("address {address:?}"))),
            (None, None) => None,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Autopilot {
    /// Show the configuration.
    GetConfig {
        #[command(flatten)]
        target: Target,
    },
    /// Change the configuration; what is not named stays.
    SetConfig {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show how the servers fare.
    Health {
        #[command(flatten)]
        target: Target,
        /// Print the answer as it comes.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct Changes {
    /// Whether dead servers are taken out when new ones have come in their place.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    cleanup_dead_servers: Option<bool>,
    /// How long a server stays well without being heard, such as `200ms`.
    #[arg(long)]
    last_contact_threshold: Option<String>,
    /// How many entries a server may be behind and still be well.
    #[arg(long)]
    max_trailing_logs: Option<u64>,
    /// How many servers are kept however dead they are.
    #[arg(long)]
    min_quorum: Option<u64>,
    /// How long a new server is well before it may vote, such as `10s`.
    #[arg(long)]
    server_stabilization_time: Option<String>,
    /// Only applies while the configuration was last changed at this index.
    #[arg(long)]
    cas: Option<u64>,
}

const CONFIG: &str = "/v1/operator/autopilot/configuration";

pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Raft(command) => raft(command).await,
        Command::Autopilot(command) => autopilot(command).await,
        Command::Gossip(Gossip::Keyring(GossipKeyring::Generate)) => {
            println!("{}", EncryptKey::generate()?);
            Ok(())
        }
    }
}

async fn raft(command: Raft) -> anyhow::Result<()> {
    match command {
        Raft::ListPeers { target, stale } => {
            let path =
                if stale { "/v1/operator/raft/configuration?stale=true" } else { "/v1/operator/raft/configuration" };
            let answer = Api::new(&target).get(path).await?;
            let rows: Vec<_> = answer["Servers"].as_array().into_iter().flatten().map(peer_row).collect();
            table::print(&["Node", "ID", "Address", "State", "Voter", "RaftProtocol"], &rows);
        }
        Raft::RemovePeer { target, peer } => {
            let Some((params, words)) = peer.named() else {
                anyhow::bail!("an id or address is required for the peer to remove");
            };
            Api::new(&target).delete(&format!("/v1/operator/raft/peer{params}")).await?;
            println!("Removed peer with {words}");
        }
        Raft::TransferLeadership { target, peer } => {
            let (params, words) = peer
                .named()
                .map_or((String::new(), "another server".to_owned()), |(p, words)| (p, format!("peer with {words}")));
            Api::new(&target).put(&format!("/v1/operator/raft/transfer-leadership{params}"), &Value::Null).await?;
            println!("Transferred leadership to {words}");
        }
    }
    Ok(())
}

fn peer_row(server: &Value) -> Vec<String> {
    let state = if server["Leader"] == true { "leader" } else { "follower" };
    vec![
        text(&server["Node"]).to_owned(),
        text(&server["ID"]).to_owned(),
        text(&server["Address"]).to_owned(),
        state.to_owned(),
        server["Voter"].to_string(),
        text(&server["RaftProtocol"]).to_owned(),
    ]
}

async fn autopilot(command: Autopilot) -> anyhow::Result<()> {
    match command {
        Autopilot::GetConfig { target } => {
            let config = Api::new(&target).get(CONFIG).await?;
            let names = [
                "CleanupDeadServers",
                "LastContactThreshold",
                "MaxTrailingLogs",
                "MinQuorum",
                "ServerStabilizationTime",
                "EnableRedundancyZones",
                "DisableUpgradeMigration",
                "EnableCustomUpgrades",
            ];
            for name in names {
                println!("{name} = {}", plain(&config[name]));
            }
        }
        Autopilot::SetConfig { target, changes } => {
            let api = Api::new(&target);
            let mut config = api.get(CONFIG).await?;
            let wanted = [
                ("CleanupDeadServers", changes.cleanup_dead_servers.map(|value| json!(value))),
                ("LastContactThreshold", changes.last_contact_threshold.map(|value| json!(value))),
                ("MaxTrailingLogs", changes.max_trailing_logs.map(|value| json!(value))),
                ("MinQuorum", changes.min_quorum.map(|value| json!(value))),
                ("ServerStabilizationTime", changes.server_stabilization_time.map(|value| json!(value))),
            ];
            for (name, value) in wanted {
                if let Some(value) = value {
                    config[name] = value;
                }
            }
            // Without an index of the user's, the one that was read: another change in between is not lost.
            let seen = changes.cas.or(config["ModifyIndex"].as_u64()).unwrap_or(0);
            if api.put(&format!("{CONFIG}?cas={seen}"), &config).await? == true {
                println!("Configuration updated!");
            } else {
                anyhow::bail!("Configuration could not be atomically updated, please try again");
            }
        }
        Autopilot::Health { target, json } => {
            let answer = health(&Api::new(&target)).await?;
            if json {
                println!("{}", serde_json::to_string_pretty(&answer)?);
                return Ok(());
            }
            println!("Healthy: {}", answer["Healthy"]);
            println!("FailureTolerance: {}", answer["FailureTolerance"]);
            println!();
            let rows: Vec<_> = answer["Servers"].as_array().into_iter().flatten().map(health_row).collect();
            table::print(
                &[
                    "Name",
                    "ID",
                    "Address",
                    "Status",
                    "Leader",
                    "Voter",
                    "Healthy",
                    "LastContact",
                    "LastTerm",
                    "LastIndex",
                    "StableSince",
                ],
                &rows,
            );
        }
    }
    Ok(())
}

/// The answer for a cluster that is not well has the same content under another status.
async fn health(api: &Api) -> anyhow::Result<Value> {
    match api.get("/v1/operator/autopilot/health").await {
        Ok(answer) => Ok(answer),
        Err(error) => {
            let text = error.to_string();
            let body = text.strip_prefix("Unexpected response code: 429 (").and_then(|rest| rest.strip_suffix(')'));
            body.and_then(|body| serde_json::from_str(body).ok()).ok_or(error)
        }
    }
}

fn health_row(server: &Value) -> Vec<String> {
    let names = [
        "Name",
        "ID",
        "Address",
        "SerfStatus",
        "Leader",
        "Voter",
        "Healthy",
        "LastContact",
        "LastTerm",
        "LastIndex",
        "StableSince",
    ];
    names.iter().map(|name| plain(&server[*name])).collect()
}

/// Texts without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
