//! `alloc status`: an allocation and its tasks.

use clap::Args;
use serde_json::Value;

use super::find::by_id;
use super::{tasks, volumes};
use crate::client::{Client, RequestError, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::{block, list, section};
use crate::values::{age, from_now, now, time};
use crate::{Context, General, ids, monitor, out, outln};

/// Arguments of `alloc status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids and times, and the metrics of the placement.
    #[arg(long)]
    verbose: bool,
    /// Print the allocation and a line for each task.
    #[arg(long)]
    short: bool,
    /// Print detailed use of resources.
    #[arg(long)]
    stats: bool,
    /// Id of the allocation, or its beginning.
    alloc: Option<String>,
}

impl crate::Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        let wanted = self.format.wanted()?;
        let client = self.general.client()?;
        let Some(typed) = &self.alloc else {
            if !wanted {
                return Err(Failure::arguments(
                    "This command takes one of the following argument conditions:\n * A single <allocation>\n * No arguments, with output format specified",
                ));
            }
            let all = client.get("/v1/allocations").await.tried("Error querying allocations")?;
            self.format.print(&all)?;
            return Ok(Exit::DONE);
        };
        let alloc = by_id(&client, typed).await?;
        if self.format.print(&alloc)? {
            return Ok(Exit::DONE);
        }
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        if self.short {
            short(&alloc);
            return Ok(Exit::DONE);
        }
        let mut pairs = self.head(&alloc);
        pairs.extend(rescheduling(&alloc, eligibility(&client, &alloc).await, self.verbose));
        if self.verbose {
            pairs.extend(placement(&alloc));
        }
        outln!("{}", block(&pairs));
        let known = tasks::Known {
            stats: statistics(&client, &alloc).await,
            detailed: self.stats,
            volumes: if self.verbose { Some(volumes::csi(&client, &alloc).await) } else { None },
        };
        addresses(&alloc);
        checks(&client, &alloc).await;
        for task in tasks::in_order(&alloc) {
            tasks::print(&alloc, &task, &known);
        }
        if self.verbose {
            section("Placement Metrics", &monitor::metric_lines(&alloc["Metrics"], true, "  "));
        }
        Ok(Exit::DONE)
    }
}

impl Status {
    fn head(&self, alloc: &Value) -> Vec<(&'static str, String)> {
        let word = |key: &str| text(&alloc[key]).to_owned();
        let id = |key: &str| ids::shown(text(&alloc[key]), self.verbose);
        let when = |key: &str| {
            let at = alloc[key].as_i64().unwrap_or(0);
            if self.verbose { time(at) } else { age(at, now()) }
        };
        let mut pairs = vec![
            ("ID", word("ID")),
            ("Eval ID", id("EvalID")),
            ("Name", word("Name")),
            ("Node ID", id("NodeID")),
            ("Node Name", word("NodeName")),
            ("Job ID", word("JobID")),
            ("Job Version", alloc["Job"]["Version"].as_u64().unwrap_or(0).to_string()),
            ("Client Status", word("ClientStatus")),
            ("Client Description", word("ClientDescription")),
            ("Desired Status", word("DesiredStatus")),
            ("Desired Description", word("DesiredDescription")),
            ("Created", when("CreateTime")),
            ("Modified", when("ModifyTime")),
        ];
        if !text(&alloc["DeploymentID"]).is_empty() {
            pairs.push(("Deployment ID", id("DeploymentID")));
            let status = &alloc["DeploymentStatus"];
            let health = match status["Healthy"].as_bool() {
                Some(true) => "healthy",
                Some(false) => "unhealthy",
                None => "unset",
            };
            pairs.push(("Deployment Health", health.to_owned()));
            if status["Canary"] == true {
                pairs.push(("Canary", "true".to_owned()));
            }
        }
        pairs
    }
}

/// Statistics of a running allocation. If there are none, standard error says why: the rest is known without the node.
async fn statistics(client: &Client, alloc: &Value) -> Option<Value> {
    let status = text(&alloc["ClientStatus"]);
    if !matches!(status, "running" | "unknown" | "lost") {
        return None;
    }
    match client.get(&format!("/v1/client/allocation/{}/stats", text(&alloc["ID"]))).await {
        Ok(stats) => Some(stats),
        Err(error) => {
            if let Some(sentence) = no_statistics(alloc, &error) {
                out::warning(&sentence);
            }
            None
        }
    }
}

/// Why an allocation has no statistics. `None`: none are expected of an allocation that no longer runs on its node.
fn no_statistics(alloc: &Value, error: &RequestError) -> Option<String> {
    match error {
        RequestError::Refused { status: 404, body } if body.contains("No path to node") => Some(format!(
            "Couldn't retrieve stats: node {:?} is down or has no connection to a server",
            ids::shown(text(&alloc["NodeID"]), false)
        )),
        error => (text(&alloc["ClientStatus"]) == "running").then(|| format!("Couldn't retrieve stats: {error}")),
    }
}

/// Attempts so far, the replacement, and when there may be one.
fn rescheduling(alloc: &Value, eligibility: Option<String>, verbose: bool) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    let attempts = items(&alloc["RescheduleTracker"]["Events"]).len();
    if attempts > 0 {
        let groups = items(&alloc["Job"]["TaskGroups"]);
        let group = groups.iter().find(|group| group["Name"] == alloc["TaskGroup"]);
        let most = group.and_then(|group| group["ReschedulePolicy"]["Attempts"].as_u64()).unwrap_or(0);
        pairs.push(("Reschedule Attempts", format!("{attempts}/{most}")));
    }
    let replacement = text(&alloc["NextAllocation"]);
    if !replacement.is_empty() {
        pairs.push(("Replacement Alloc ID", ids::shown(replacement, verbose)));
    }
    pairs.extend(eligibility.map(|at| ("Reschedule Eligibility", at)));
    pairs
}

/// The age of the evaluation that may replace the allocation. `None`: there is none, or it cannot be read.
async fn eligibility(client: &Client, alloc: &Value) -> Option<String> {
    let id = text(&alloc["FollowupEvalID"]);
    if id.is_empty() {
        return None;
    }
    let eval = client.get(&format!("/v1/evaluation/{id}")).await.ok()?;
    from_now(text(&eval["WaitUntil"]), now())
}

/// Counts of the placement.
fn placement(alloc: &Value) -> [(&'static str, String); 5] {
    let metrics = &alloc["Metrics"];
    let number = |key: &str| metrics[key].as_i64().unwrap_or(0).to_string();
    [
        ("Evaluated Nodes", number("NodesEvaluated")),
        ("Filtered Nodes", number("NodesFiltered")),
        ("Exhausted Nodes", number("NodesExhausted")),
        ("Allocation Time", crate::values::go_duration(metrics["AllocationTime"].as_i64().unwrap_or(0))),
        ("Failures", number("CoalescedFailures")),
    ]
}

fn short(alloc: &Value) {
    let when = |key: &str| age(alloc[key].as_i64().unwrap_or(0), now());
    let pairs = [
        ("ID", text(&alloc["ID"]).to_owned()),
        ("Name", text(&alloc["Name"]).to_owned()),
        ("Created", when("CreateTime")),
        ("Modified", when("ModifyTime")),
    ];
    outln!("{}", block(&pairs));
    let row = |task: &String| {
        let state = &alloc["TaskStates"][task];
        let last = items(&state["Events"]).last().cloned().unwrap_or_default();
        let lifecycle = tasks::lifecycle(alloc, task);
        vec![
            task.clone(),
            text(&state["State"]).to_owned(),
            text(&last["Type"]).to_owned(),
            time(last["Time"].as_i64().unwrap_or(0)),
            if lifecycle.is_empty() { "main".to_owned() } else { lifecycle },
        ]
    };
    let rows: Vec<_> = tasks::in_order(alloc).iter().map(row).collect();
    section("Tasks", &list(&["Name", "State", "Last Event", "Time", "Lifecycle"], &rows));
}

/// Ports of the allocation.
fn addresses(alloc: &Value) {
    let shared = &alloc["AllocatedResources"]["Shared"];
    let ports = items(&shared["Ports"]);
    if ports.is_empty() {
        return;
    }
    let row = |port: &Value| {
        let to = port["To"].as_i64().unwrap_or(0);
        let mapped = if to > 0 { format!(" -> {to}") } else { String::new() };
        let address = format!("{}:{}{mapped}", text(&port["HostIP"]), port["Value"]);
        vec![format!("*{}", text(&port["Label"])), "yes".to_owned(), address]
    };
    let mode = text(&shared["Networks"][0]["Mode"]);
    let mode = if mode.is_empty() { String::new() } else { format!(" (mode = {mode:?})") };
    let rows: Vec<_> = ports.iter().map(row).collect();
    outln!("\nAllocation Addresses{mode}:\n{}", list(&["Label", "Dynamic", "Address"], &rows));
}

/// Checks of services, if the node knows some.
async fn checks(client: &Client, alloc: &Value) {
    let path = format!("/v1/client/allocation/{}/checks", text(&alloc["ID"]));
    let Ok(found) = client.get(&path).await else { return };
    let mut rows: Vec<Vec<String>> = found
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, check)| {
            let task = text(&check["Task"]);
            let task = if task.is_empty() { "(group)" } else { task };
            let word = |key: &str| text(&check[key]).to_owned();
            vec![word("Service"), task.to_owned(), word("Check"), word("Mode"), word("Status")]
        })
        .collect();
    rows.sort();
    if !rows.is_empty() {
        outln!("\nNomad Service Checks:\n{}", list(&["Service", "Task", "Name", "Mode", "Status"], &rows));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_statistics_have_a_reason() {
        let alloc = |status: &str| json!({ "NodeID": "0123456789", "ClientStatus": status });
        let refused = |status, body: &str| RequestError::Refused { status, body: body.to_owned() };
        let down = "Couldn't retrieve stats: node \"01234567\" is down or has no connection to a server";
        for status in ["running", "lost", "unknown"] {
            let said = no_statistics(&alloc(status), &refused(404, "No path to node"));
            assert_eq!(said.as_deref(), Some(down), "{status}");
        }
        let other = refused(404, "Unknown allocation \"x\"");
        let said = no_statistics(&alloc("running"), &other);
        let reason = "Couldn't retrieve stats: Unexpected response code: 404 (Unknown allocation \"x\")";
        assert_eq!(said.as_deref(), Some(reason));
        assert_eq!(no_statistics(&alloc("lost"), &other), None);
    }

    #[test]
    fn rescheduling_is_shown_where_there_is_some() {
        assert!(rescheduling(&json!({}), None, false).is_empty());
        let alloc = json!({
            "TaskGroup": "g",
            "Job": { "TaskGroups": [{ "Name": "g", "ReschedulePolicy": { "Attempts": 3 } }] },
            "RescheduleTracker": { "Events": [{}] },
            "NextAllocation": "0123456789",
        });
        let expected = [
            ("Reschedule Attempts", "1/3".to_owned()),
            ("Replacement Alloc ID", "01234567".to_owned()),
            ("Reschedule Eligibility", "29s from now".to_owned()),
        ];
        assert_eq!(rescheduling(&alloc, Some("29s from now".to_owned()), false), expected);
    }
}
