//! `operator autopilot`: how the servers look after themselves.

use clap::Args;
use serde_json::{Value, json};

use crate::args::Truth;
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::list;
use crate::values::{GoDuration, go_duration};
use crate::{Context, General, Run, outln};

const CONFIG: &str = "/v1/operator/autopilot/configuration";

/// Arguments of `operator autopilot get-config`.
#[derive(Args)]
pub(crate) struct GetConfig {
    #[command(flatten)]
    general: General,
}

impl Run for GetConfig {
    async fn run(self, _: &Context) -> Outcome {
        let config = self.general.client()?.get(CONFIG).await.tried("Error querying Autopilot configuration")?;
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
            outln!("{name} = {}", plain(&config[name]));
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator autopilot set-config`.
#[derive(Args)]
pub(crate) struct SetConfig {
    #[command(flatten)]
    general: General,
    /// Whether dead servers are removed when new ones have come in their place.
    #[arg(long)]
    cleanup_dead_servers: Option<Truth>,
    /// Longest silence of a healthy server, such as `200ms`.
    #[arg(long)]
    last_contact_threshold: Option<GoDuration>,
    /// Largest number of entries that a healthy server may be behind.
    #[arg(long)]
    max_trailing_logs: Option<u64>,
    /// Least number of servers that are kept, dead or not.
    #[arg(long)]
    min_quorum: Option<u64>,
    /// Time for which a new server must be healthy before it may vote, such as `10s`.
    #[arg(long)]
    server_stabilization_time: Option<GoDuration>,
    /// Accepted for compatibility: redundancy zones are not built.
    #[arg(long)]
    enable_redundancy_zones: Option<Truth>,
    /// Accepted for compatibility: upgrade migrations are not built.
    #[arg(long)]
    disable_upgrade_migration: Option<Truth>,
    /// Accepted for compatibility: custom upgrades are not built.
    #[arg(long)]
    enable_custom_upgrades: Option<Truth>,
    /// Only apply while the configuration was last changed at this index.
    #[arg(long)]
    cas: Option<u64>,
}

impl SetConfig {
    fn wanted(&self) -> Vec<(&'static str, Value)> {
        let span = |GoDuration(nanos)| json!(go_duration(nanos));
        let all = [
            ("CleanupDeadServers", self.cleanup_dead_servers.map(|Truth(truth)| json!(truth))),
            ("LastContactThreshold", self.last_contact_threshold.map(span)),
            ("MaxTrailingLogs", self.max_trailing_logs.map(|value| json!(value))),
            ("MinQuorum", self.min_quorum.map(|value| json!(value))),
            ("ServerStabilizationTime", self.server_stabilization_time.map(span)),
            ("EnableRedundancyZones", self.enable_redundancy_zones.map(|Truth(truth)| json!(truth))),
            ("DisableUpgradeMigration", self.disable_upgrade_migration.map(|Truth(truth)| json!(truth))),
            ("EnableCustomUpgrades", self.enable_custom_upgrades.map(|Truth(truth)| json!(truth))),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Run for SetConfig {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let mut config = client.get(CONFIG).await.tried("Error querying Autopilot configuration")?;
        for (name, value) in self.wanted() {
            config[name] = value;
        }
        // Without an index of the user's, the one that was read: another change in between is not lost.
        let seen = self.cas.or(config["ModifyIndex"].as_u64()).unwrap_or(0);
        let set = client.put(&format!("{CONFIG}?cas={seen}"), &config).await;
        if set.tried("Error setting Autopilot configuration")? == true {
            outln!("Configuration updated!");
            return Ok(Exit::DONE);
        }
        Err(Failure::new("Configuration could not be atomically updated, please try again"))
    }
}

/// Arguments of `operator autopilot health`.
#[derive(Args)]
pub(crate) struct Health {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for Health {
    async fn run(self, _: &Context) -> Outcome {
        let answer = health(&self.general.client()?).await?;
        if self.format.print(&answer)? {
            return Ok(Exit::DONE);
        }
        outln!("Healthy: {}", answer["Healthy"]);
        outln!("FailureTolerance: {}\n", answer["FailureTolerance"]);
        let rows: Vec<_> = answer["Servers"].as_array().into_iter().flatten().map(row).collect();
        let headings = COLUMNS.map(|(heading, _)| heading);
        outln!("{}", list(&headings, &rows));
        Ok(Exit::DONE)
    }
}

/// Headings of the servers' health, and the fields below them.
const COLUMNS: [(&str, &str); 11] = [
    ("Name", "Name"),
    ("ID", "ID"),
    ("Address", "Address"),
    ("Status", "SerfStatus"),
    ("Leader", "Leader"),
    ("Voter", "Voter"),
    ("Healthy", "Healthy"),
    ("LastContact", "LastContact"),
    ("LastTerm", "LastTerm"),
    ("LastIndex", "LastIndex"),
    ("StableSince", "StableSince"),
];

fn row(server: &Value) -> Vec<String> {
    COLUMNS.iter().map(|(_, field)| plain(&server[*field])).collect()
}

/// The answer for a cluster that is not healthy has the same content under another status.
async fn health(client: &Client) -> Result<Value, Failure> {
    match client.get("/v1/operator/autopilot/health").await {
        Err(crate::client::RequestError::Refused { status: 429, body }) => {
            serde_json::from_str(&body).tried("Error querying Autopilot health")
        }
        other => other.tried("Error querying Autopilot health"),
    }
}

/// Texts without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
