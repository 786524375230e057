//! `operator raft`, `operator autopilot` and `operator gossip`: who votes and leads, how the servers look after
//! themselves, and the key that they know each other by.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::{General, table};

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
        target: General,
        /// Ask this server, even when it does not lead.
        #[arg(long)]
        stale: bool,
    },
    /// Take a server out.
    RemovePeer {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        peer: Peer,
    },
    /// Let another server lead; without a name, the one that has most of the log.
    TransferLeadership {
        #[command(flatten)]
        target: General,
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
        target: General,
    },
    /// Change the configuration; what is not named stays.
    SetConfig {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show how the servers fare.
    Health {
        #[command(flatten)]
        target: General,
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

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Raft(command) => raft(command).await,
        Command::Autopilot(command) => autopilot(command).await,
        Command::Gossip(Gossip::Keyring(GossipKeyring::Generate)) => {
            crate::outln!("{}", gossip_key()?);
            Ok(())
        }
    }
}

async fn raft(command: Raft) -> anyhow::Result<()> {
    match command {
        Raft::ListPeers { target, stale } => {
            let path =
                if stale { "/v1/operator/raft/configuration?stale=true" } else { "/v1/operator/raft/configuration" };
            let answer = target.client()?.get(path).await?;
            let rows: Vec<_> = answer["Servers"].as_array().into_iter().flatten().map(peer_row).collect();
            table::print(&["Node", "ID", "Address", "State", "Voter", "RaftProtocol"], &rows);
        }
        Raft::RemovePeer { target, peer } => {
            let Some((params, words)) = peer.named() else {
                anyhow::bail!("an id or address is required for the peer to remove");
            };
            target.client()?.delete(&format!("/v1/operator/raft/peer{params}")).await?;
            crate::outln!("Removed peer with {words}");
        }
        Raft::TransferLeadership { target, peer } => {
            let (params, words) = peer
                .named()
                .map_or((String::new(), "another server".to_owned()), |(p, words)| (p, format!("peer with {words}")));
            target.client()?.put(&format!("/v1/operator/raft/transfer-leadership{params}"), &Value::Null).await?;
            crate::outln!("Transferred leadership to {words}");
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
            let config = target.client()?.get(CONFIG).await?;
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
                crate::outln!("{name} = {}", plain(&config[name]));
            }
        }
        Autopilot::SetConfig { target, changes } => {
            let api = target.client()?;
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
                crate::outln!("Configuration updated!");
            } else {
                anyhow::bail!("Configuration could not be atomically updated, please try again");
            }
        }
        Autopilot::Health { target, json } => {
            let answer = health(&target.client()?).await?;
            if json {
                crate::outln!("{}", serde_json::to_string_pretty(&answer)?);
                return Ok(());
            }
            crate::outln!("Healthy: {}", answer["Healthy"]);
            crate::outln!("FailureTolerance: {}", answer["FailureTolerance"]);
            crate::outln!();
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
async fn health(api: &Client) -> anyhow::Result<Value> {
    match api.get("/v1/operator/autopilot/health").await {
        Ok(answer) => Ok(answer),
        Err(error) => {
            let text = error.to_string();
            let body = text.strip_prefix("Unexpected response code: 429 (").and_then(|rest| rest.strip_suffix(')'));
            body.and_then(|body| serde_json::from_str(body).ok()).ok_or_else(|| error.into())
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

/// A new key of `server { encrypt }`: base64 of 32 random bytes.
fn gossip_key() -> anyhow::Result<String> {
    use base64::Engine;
    use ring::rand::SecureRandom;
    let mut bytes = [0; 32];
    let random = ring::rand::SystemRandom::new();
    random.fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
