//! `node status`: all nodes, or one of them.

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
use crate::values::{go_duration, megahertz, percent, size, time_of};
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
        outln!("{}", block(&self.head(node, stats.as_ref())));
        let found = client.get(&format!("/v1/node/{id}/allocations")).await.tried("Error querying node allocations")?;
        let found = newest_first(found);
        let of_node = items(&found);
        if self.verbose {
            volumes_and_networks(node);
        }
        if self.verbose || self.short {
            drivers(node);
        }
        if !self.short {
            self.events(node);
            resources(node, of_node, stats.as_ref());
            if let Some(stats) = stats.as_ref().filter(|_| self.stats) {
                measured(stats);
            }
        }
        section("Allocations", &allocs(of_node, self.verbose, false));
        if self.verbose {
            section("Attributes", &sorted(&node["Attributes"]));
            section("Meta", &sorted(&node["Meta"]));
        }
        Ok(Exit::DONE)
    }

    fn head(&self, node: &Value, stats: Option<&Value>) -> Vec<(&'static str, String)> {
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
            ("CSI Volumes", String::new()),
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

fn volumes_and_networks(node: &Value) {
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

/// Granted resources of the node, and those in use.
fn resources(node: &Value, allocs: &[Value], stats: Option<&Value>) {
    let (own, kept) = (&node["NodeResources"], &node["ReservedResources"]);
    let less = |group: &str, key: &str, kept_key: &str| {
        own[group][key].as_u64().unwrap_or(0).saturating_sub(kept[group][kept_key].as_u64().unwrap_or(0))
    };
    let cpu = less("Cpu", "CpuShares", "CpuShares");
    let (memory, disk) = (less("Memory", "MemoryMB", "MemoryMB"), less("Disk", "DiskMB", "DiskMB"));
    let (mut used_cpu, mut used_memory, mut used_disk) = (0, 0, 0);
    let live = allocs.iter().filter(|alloc| !matches!(text(&alloc["ClientStatus"]), "complete" | "failed" | "lost"));
    for alloc in live {
        let granted = &alloc["AllocatedResources"];
        used_disk += granted["Shared"]["DiskMB"].as_u64().unwrap_or(0);
        for (_, task) in granted["Tasks"].as_object().into_iter().flatten() {
            used_cpu += task["Cpu"]["CpuShares"].as_u64().unwrap_or(0);
            used_memory += task["Memory"]["MemoryMB"].as_u64().unwrap_or(0);
        }
    }
    let of = |used: u64, all: u64| format!("{}/{}", size(used << 20), size(all << 20));
    let row = vec![format!("{used_cpu}/{cpu} MHz"), of(used_memory, memory), of(used_disk, disk)];
    section("Allocated Resources", &list(&["CPU", "Memory", "Disk"], &[row]));
    let Some(stats) = stats else { return };
    let ticks = stats["CPUTicksConsumed"].as_f64().unwrap_or(0.0);
    let ram = &stats["Memory"];
    let bytes = |value: &Value| value.as_u64().unwrap_or(0);
    let row = vec![format!("0/{cpu} MHz"), format!("0 B/{}", size(memory << 20))];
    section("Allocation Resource Utilization", &list(&["CPU", "Memory"], &[row]));
    let disk = &stats["AllocDirStats"];
    let row = vec![
        format!("{ticks:.0}/{}", megahertz(own["Cpu"]["CpuShares"].as_f64().unwrap_or(0.0))),
        format!("{}/{}", size(bytes(&ram["Used"])), size(bytes(&ram["Total"]))),
        format!("{}/{}", size(bytes(&disk["Used"])), size(bytes(&disk["Size"]))),
    ];
    section("Host Resource Utilization", &list(&["CPU", "Memory", "Disk"], &[row]));
}

/// Everything that the node measures.
fn measured(stats: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let cpus: Vec<String> = items(&stats["CPU"])
        .iter()
        .map(|cpu| {
            block(&[
                ("CPU", text(&cpu["CPU"]).to_owned()),
                ("User", percent(number(&cpu["User"]))),
                ("System", percent(number(&cpu["System"]))),
                ("Idle", percent(number(&cpu["Idle"]))),
            ])
        })
        .collect();
    section("CPU Stats", &cpus.join("\n\n"));
    let memory =
        ["Total", "Available", "Used", "Free"].map(|key| (key, size(stats["Memory"][key].as_u64().unwrap_or(0))));
    section("Memory Stats", &block(&memory));
    let disks: Vec<String> = items(&stats["DiskStats"])
        .iter()
        .map(|disk| {
            let bytes = |key: &str| size(disk[key].as_u64().unwrap_or(0));
            block(&[
                ("Device", text(&disk["Device"]).to_owned()),
                ("MountPoint", text(&disk["Mountpoint"]).to_owned()),
                ("Size", bytes("Size")),
                ("Used", bytes("Used")),
                ("Available", bytes("Available")),
                ("Used Percent", percent(number(&disk["UsedPercent"]))),
                ("Inodes Percent", percent(number(&disk["InodesUsedPercent"]))),
            ])
        })
        .collect();
    section("Disk Stats", &disks.join("\n\n"));
}
