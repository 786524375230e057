//! `node status`: all nodes, or one of them.

mod devices;
mod usage;
mod volumes;

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use super::find::id_of_shown;
use super::list::{Columns, table};
use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::{allocs, items, newest_first};
use crate::layout::{block, list, section};
use crate::pages::Page;
use crate::values::{go_duration, time_of};
use crate::{Context, General, outln};

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// Arguments of `node status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    page: Page,
    /// Print full ids, addresses and versions; of one node everything.
    #[arg(long)]
    verbose: bool,
    /// Show the number of running allocations.
    #[arg(long)]
    allocs: bool,
    /// Show operating systems.
    #[arg(long)]
    os: bool,
    /// Print full ids only.
    #[arg(long)]
    quiet: bool,
    /// Show the node and its drivers only.
    #[arg(long)]
    short: bool,
    /// Take the agent's own node.
    #[arg(long = "self")]
    own: bool,
    /// Print detailed use of resources.
    #[arg(long)]
    stats: bool,
    /// Id of the node, or its beginning.
    node: Option<String>,
}

impl crate::Run for Status {
    async fn run(self, context: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        if self.node.is_none() && !self.own {
            return self.all(&client, context).await;
        }
        let id = id_of_shown(&client, self.node.as_deref(), self.own).await?;
        let node = client.get(&format!("/v1/node/{id}")).await.tried("Error querying node info")?;
        if self.format.print(&node)? {
            return Ok(Exit::DONE);
        }
        self.one(&client, &node).await
    }
}

impl Status {
    async fn all(&self, client: &Client, context: &Context) -> Outcome {
        if self.quiet && (self.verbose || self.format.json) {
            return Err(Failure::new("-quiet cannot be used with -verbose or -json"));
        }
        let os = if self.os { "true" } else { "" };
        let path = self.page.path("/v1/nodes", &[("os", os)]);
        let answer = client.ask(&path).await.tried("Error querying node status")?;
        if self.format.print(&answer.value)? {
            return Ok(Exit::DONE);
        }
        let nodes = items(&answer.value);
        if nodes.is_empty() {
            outln!("No nodes registered");
            return Ok(Exit::DONE);
        }
        if self.quiet {
            nodes.iter().for_each(|node| outln!("{}", text(&node["ID"])));
            return Ok(Exit::DONE);
        }
        let mut running = BTreeMap::new();
        if self.allocs {
            for node in nodes {
                let id = text(&node["ID"]);
                let found = client.get(&format!("/v1/node/{id}/allocations")).await;
                let found = found.tried("Error querying node allocations")?;
                let count = items(&found).iter().filter(|alloc| text(&alloc["ClientStatus"]) == "running").count();
                running.insert(id.to_owned(), count as u64);
            }
        }
        let columns = Columns { verbose: self.verbose, os: self.os };
        outln!("{}", table(nodes, &columns, self.allocs.then_some(&running)));
        Page::hint(&answer, context);
        Ok(Exit::DONE)
    }

    async fn one(&self, client: &Client, node: &Value) -> Outcome {
        let id = text(&node["ID"]);
        let path = with_query("/v1/client/stats", &[("node_id", id)]);
        // A node that does not answer has no statistics; the rest is known without it.
        let stats = if self.short { None } else { client.get(&path).await.ok() };
        let csi = if self.short { Vec::new() } else { volumes::csi(client, id).await };
        outln!("{}", block(&self.head(node, stats.as_ref(), &csi)));
        let found = client.get(&format!("/v1/node/{id}/allocations")).await.tried("Error querying node allocations")?;
        let found = newest_first(found);
        let of_node = items(&found);
        if self.verbose {
            volumes::host(node);
            volumes::networks(node);
            volumes::print_csi(&csi);
        }
        if self.verbose || self.short {
            drivers(node);
        }
        if !self.short {
            self.events(node);
            usage::allocated(node, of_node);
            if let Some(stats) = &stats {
                usage::allocs(node, usage::of_allocs(client, of_node).await);
                usage::host(node, stats);
                devices::utilization(stats);
                if self.stats {
                    usage::detailed(stats);
                    devices::detailed(stats);
                }
            }
        }
        section("Allocations", &allocs(of_node, self.verbose, false));
        if self.verbose {
            section("Attributes", &sorted(&node["Attributes"]));
            devices::groups(node);
            section("Meta", &sorted(&node["Meta"]));
        }
        Ok(Exit::DONE)
    }

    fn head(&self, node: &Value, stats: Option<&Value>, csi: &[Value]) -> Vec<(&'static str, String)> {
        let word = |key: &str| text(&node[key]).to_owned();
        let names = |key: &str| keys(&node[key]).join(",");
        let mut pairs = vec![
            ("ID", word("ID")),
            ("Name", word("Name")),
            ("Node Pool", word("NodePool")),
            ("Class", word("NodeClass")),
            ("DC", word("Datacenter")),
            ("Drain", drain(&node["DrainStrategy"])),
            ("Eligibility", word("SchedulingEligibility")),
            ("Status", word("Status")),
            ("CSI Controllers", names("CSIControllerPlugins")),
            ("CSI Drivers", names("CSINodePlugins")),
        ];
        if self.short {
            return pairs;
        }
        if let Some(uptime) = stats.and_then(|stats| stats["Uptime"].as_i64()) {
            pairs.push(("Uptime", go_duration(uptime.saturating_mul(SECOND))));
        }
        if self.verbose {
            return pairs;
        }
        let drivers: Vec<String> = keys(&node["Drivers"])
            .into_iter()
            .filter(|name| node["Drivers"][*name]["Detected"] == true)
            .map(|name| {
                let healthy = node["Drivers"][name]["Healthy"] == true;
                if healthy { name.to_owned() } else { format!("{name} (unhealthy)") }
            })
            .collect();
        pairs.extend([
            ("Host Volumes", names("HostVolumes")),
            ("Host Networks", names("HostNetworks")),
            ("CSI Volumes", volumes::names(csi)),
            ("Driver Status", drivers.join(",")),
        ]);
        pairs
    }

    fn events(&self, node: &Value) {
        let rows: Vec<_> = items(&node["Events"])
            .iter()
            .rev()
            .map(|event| {
                let driver = text(&event["Details"]["driver"]);
                let subsystem = text(&event["Subsystem"]);
                let subsystem = if driver.is_empty() { subsystem.to_owned() } else { format!("Driver: {driver}") };
                let mut cells = vec![time_of(text(&event["Timestamp"])), subsystem, text(&event["Message"]).to_owned()];
                if self.verbose {
                    let details = event["Details"].as_object().into_iter().flatten();
                    let mut details: Vec<String> =
                        details.map(|(key, value)| format!("{key} = {}", text(value))).collect();
                    details.sort_unstable();
                    cells.push(details.join(" "));
                }
                cells
            })
            .collect();
        let headings: &[&str] =
            if self.verbose { &["Time", "Subsystem", "Message", "Details"] } else { &["Time", "Subsystem", "Message"] };
        section("Node Events", &list(headings, &rows));
    }
}

/// Names of an object's members, in alphabetical order.
fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    keys.sort_unstable();
    keys
}

fn sorted(object: &Value) -> String {
    let pairs: Vec<(&str, &str)> = keys(object).into_iter().map(|key| (key, text(&object[key]))).collect();
    block(&pairs)
}

fn drain(strategy: &Value) -> String {
    if strategy.is_null() {
        return "false".to_owned();
    }
    let kind = match strategy["Deadline"].as_i64().unwrap_or(0) {
        ..0 => "force drain".to_owned(),
        0 => "no deadline".to_owned(),
        _ => format!("{} deadline", time_of(text(&strategy["ForceDeadline"]))),
    };
    let system = if strategy["IgnoreSystemJobs"] == true { "; ignoring system jobs" } else { "" };
    format!("true; {kind}{system}")
}

fn drivers(node: &Value) {
    let rows: Vec<_> = keys(&node["Drivers"])
        .into_iter()
        .map(|name| {
            let driver = &node["Drivers"][name];
            vec![
                name.to_owned(),
                (driver["Detected"] == true).to_string(),
                (driver["Healthy"] == true).to_string(),
                text(&driver["HealthDescription"]).to_owned(),
                time_of(text(&driver["UpdateTime"])),
            ]
        })
        .collect();
    section("Drivers", &list(&["Driver", "Detected", "Healthy", "Message", "Time"], &rows));
}
