//! Tasks of an allocation, as `alloc status` prints them.

use serde_json::Value;

use super::volumes::{self, Volumes};
use crate::client::text;
use crate::jobs::lists::items;
use crate::layout::{block, list, resources};
use crate::outln;
use crate::values::{size, time, time_of};

/// The task of the allocation's job.
fn of_job<'v>(alloc: &'v Value, task: &str) -> &'v Value {
    let groups = items(&alloc["Job"]["TaskGroups"]);
    let group = groups.iter().find(|group| group["Name"] == alloc["TaskGroup"]);
    let tasks = group.map(|group| items(&group["Tasks"])).unwrap_or_default();
    tasks.iter().find(|one| text(&one["Name"]) == task).unwrap_or(&Value::Null)
}

/// Hook of a task with whether it stays beside the others: `prestart sidecar`; empty for a main task.
pub(super) fn lifecycle(alloc: &Value, task: &str) -> String {
    let lifecycle = &of_job(alloc, task)["Lifecycle"];
    let hook = text(&lifecycle["Hook"]);
    if lifecycle["Sidecar"] == true { format!("{hook} sidecar") } else { hook.to_owned() }
}

/// Names of the tasks: those with a lifecycle first, sidecars last of them, then by name.
pub(super) fn in_order(alloc: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        alloc["TaskStates"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    names.sort_by_key(|name| {
        let lifecycle = lifecycle(alloc, name);
        (lifecycle.is_empty(), lifecycle.ends_with("sidecar"), name.clone())
    });
    names
}

/// Answers about an allocation beside its own.
pub(super) struct Known {
    /// Statistics, if its node has answered.
    pub stats: Option<Value>,
    /// Whether statistics are printed in detail.
    pub detailed: bool,
    /// CSI volumes; `None`: they are named only.
    pub volumes: Option<Volumes>,
}

/// Prints a task: resources, events.
pub(super) fn print(alloc: &Value, name: &str, known: &Known) {
    let state = &alloc["TaskStates"][name];
    let lifecycle = lifecycle(alloc, name);
    let lifecycle = if lifecycle.is_empty() { String::new() } else { format!(" ({lifecycle})") };
    outln!("\nTask \"{name}\"{lifecycle} is \"{}\"", text(&state["State"]));
    let used = known.stats.as_ref().map(|stats| &stats["Tasks"][name]["ResourceUsage"]);
    outln!("Task Resources:\n{}", use_of(alloc, name, used));
    if let Some(used) = used.filter(|used| known.detailed && !used.is_null()) {
        measured(used);
    }
    volumes::print(alloc, of_job(alloc, name), known.volumes.as_ref());
    outln!("\nTask Events:\n{}", block(&times(state)));
    let events: Vec<_> = items(&state["Events"])
        .iter()
        .rev()
        .map(|event| {
            let at = time(event["Time"].as_i64().unwrap_or(0));
            vec![at, text(&event["Type"]).to_owned(), text(&event["DisplayMessage"]).to_owned()]
        })
        .collect();
    outln!("\nRecent Events:\n{}", list(&["Time", "Type", "Description"], &events));
}

fn times(state: &Value) -> [(&'static str, String); 4] {
    let or_none = |at: String| if at.is_empty() { "N/A".to_owned() } else { at };
    let when = |key: &str| or_none(time_of(text(&state[key])));
    [
        ("Started At", when("StartedAt")),
        ("Finished At", when("FinishedAt")),
        ("Total Restarts", state["Restarts"].as_u64().unwrap_or(0).to_string()),
        ("Last Restart", when("LastRestart")),
    ]
}

fn use_of(alloc: &Value, name: &str, used: Option<&Value>) -> String {
    let granted = &alloc["AllocatedResources"]["Tasks"][name];
    let shares = granted["Cpu"]["CpuShares"].as_i64().unwrap_or(0);
    let memory = granted["Memory"]["MemoryMB"].as_u64().unwrap_or(0);
    let max = granted["Memory"]["MemoryMaxMB"].as_u64().unwrap_or(0);
    let disk = alloc["AllocatedResources"]["Shared"]["DiskMB"].as_u64().unwrap_or(0);
    let cores = items(&granted["Cpu"]["ReservedCores"]).len();
    let mut cpu = format!("{shares} MHz");
    let mut ram = size(memory << 20);
    if let Some(used) = used.filter(|used| !used.is_null()) {
        // A driver measures what it can: what is not measured is not shown.
        if let Some(ticks) = measures(&used["CpuStats"], "Total Ticks", "TotalTicks") {
            cpu = format!("{ticks:.0}/{cpu}");
        }
        let stats = &used["MemoryStats"];
        let bytes = measures(stats, "RSS", "RSS").filter(|rss| *rss > 0.0).or_else(|| stats["Usage"].as_f64());
        if let Some(bytes) = bytes {
            ram = format!("{}/{ram}", size(bytes as u64));
        }
    }
    let addresses: Vec<String> = items(&granted["Networks"])
        .iter()
        .flat_map(|network| {
            let ports = items(&network["DynamicPorts"]).iter().chain(items(&network["ReservedPorts"]));
            ports.map(|port| format!("{}: {}:{}", text(&port["Label"]), text(&network["IP"]), port["Value"]))
        })
        .collect();
    let heading = match cores {
        0 => "CPU".to_owned(),
        1 => "CPU (1 core)".to_owned(),
        several => format!("CPU ({several} cores)"),
    };
    let mut rows = vec![vec![cpu, ram, size(disk << 20), addresses.first().cloned().unwrap_or_default()]];
    for address in addresses.iter().skip(1) {
        rows.push(vec![String::new(), String::new(), String::new(), address.clone()]);
    }
    if max > 0 && max != memory {
        let line = format!("Max: {}", size(max << 20));
        match rows.get_mut(1) {
            Some(row) => row[1] = line,
            None => rows.push(vec![String::new(), line, String::new(), String::new()]),
        }
    }
    resources(&[&heading, "Memory", "Disk", "Addresses"], &rows)
}

/// A value that the driver says it measures.
fn measures(stats: &Value, name: &str, key: &str) -> Option<f64> {
    let is_measured = items(&stats["Measured"]).iter().any(|measured| text(measured) == name);
    stats[key].as_f64().filter(|_| is_measured)
}

/// Everything that a driver measures of a task.
fn measured(used: &Value) {
    for (title, stats) in [("Memory Stats", &used["MemoryStats"]), ("CPU Stats", &used["CpuStats"])] {
        let mut names: Vec<&str> = items(&stats["Measured"]).iter().map(text).collect();
        names.sort_unstable();
        if names.is_empty() {
            continue;
        }
        let cell = |name: &&str| {
            let key: String = name.split(' ').collect();
            let value = stats[&key].as_f64().unwrap_or(0.0);
            match (title, *name) {
                ("Memory Stats", _) => size(value as u64),
                (_, "Throttled Periods") => format!("{value:.0}"),
                (_, "Throttled Time") => crate::values::go_duration(value as i64),
                (_, name) if name.contains("Ticks") => format!("{value:.0} MHz"),
                _ => crate::values::percent(value),
            }
        };
        outln!("\n{title}\n{}", list(&names, &[names.iter().map(cell).collect()]));
    }
}
