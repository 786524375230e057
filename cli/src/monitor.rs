//! Monitors of evaluations: what becomes of an evaluation, step by step, until it ends; then its deployment.

mod deployment;
mod live;
mod metrics;
mod regions;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

pub use deployment::block as deployment_block;
pub use metrics::lines as metric_lines;

use crate::client::{Client, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::ids::shown;
use crate::layout::indented;
use crate::out::{self, Colour};
use crate::outln;
use crate::values::{go_duration, nanos_of, now, stamp};

/// How often an evaluation is looked at.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Prints the warnings of a registration on standard output, in yellow.
pub fn warnings(answer: &Value) {
    let warnings = text(&answer["Warnings"]);
    if !warnings.is_empty() {
        outln!("{}", out::paint(Colour::Yellow, &format!("Job Warnings:\n{warnings}\n")));
    }
}

/// Prints the beginning of a step.
pub fn step(line: &str) {
    outln!("==> {}: {line}", stamp());
}

/// Prints a detail of a step.
pub fn detail(line: &str) {
    outln!("    {}: {line}", stamp());
}

/// Follows an evaluation, the evaluations after it, and the deployment.
///
/// # Errors
/// An evaluation or its allocations cannot be read.
pub async fn evaluation(client: &Client, id: &str, verbose: bool) -> Outcome {
    follow(client, id, Look { verbose, in_place: live::is_possible() }).await
}

/// Follows several evaluations at once, each with its client. Their lines are printed as they come.
pub async fn evaluations(all: &[(&Client, String)], verbose: bool) -> Vec<Outcome> {
    // Two deployments cannot be redrawn in one place.
    let look = Look { verbose, in_place: all.len() == 1 && live::is_possible() };
    futures_util::future::join_all(all.iter().map(|(client, id)| follow(client, id, look))).await
}

/// Follows a deployment, and the one that a failed one reverts to, printing it at every change, or redrawing it where
/// standard output is a terminal. `true`: it ended well.
///
/// # Errors
/// A deployment cannot be read.
pub async fn watch_deployment(client: &Client, id: &str, verbose: bool) -> Result<bool, Failure> {
    deployment::watch(client, id, Look { verbose, in_place: live::is_possible() }).await
}

/// Form of a monitor's output.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// Full ids, and the allocations of a deployment that is redrawn.
    verbose: bool,
    /// A deployment is redrawn in its place; otherwise it is printed anew at every change.
    in_place: bool,
}

async fn follow(client: &Client, id: &str, look: Look) -> Outcome {
    let verbose = look.verbose;
    let mut id = id.to_owned();
    let mut not_placed = false;
    loop {
        step(&format!("Monitoring evaluation \"{}\"", shown(&id, verbose)));
        let mut seen = Seen::default();
        let last = loop {
            let eval = client.get(&format!("/v1/evaluation/{id}")).await.tried("Error reading evaluation")?;
            seen.tell(client, &eval, verbose).await?;
            if matches!(text(&eval["Status"]), "complete" | "failed" | "canceled") {
                break eval;
            }
            tokio::time::sleep(POLL_EVERY).await;
        };
        not_placed |= ended(&last, verbose);
        let next = text(&last["NextEval"]);
        if next.is_empty() {
            return finish(client, text(&last["DeploymentID"]), not_placed, look).await;
        }
        wait(client, next, verbose).await?;
        id = next.to_owned();
    }
}

async fn finish(client: &Client, deployment: &str, not_placed: bool, look: Look) -> Outcome {
    if !deployment.is_empty() {
        step(&format!("Monitoring deployment \"{}\"", shown(deployment, look.verbose)));
        if !deployment::watch(client, deployment, look).await? {
            return Ok(Exit::FAILED);
        }
    }
    Ok(if not_placed { Exit::NOT_PLACED } else { Exit::DONE })
}

/// Waits until the next evaluation is due.
async fn wait(client: &Client, id: &str, verbose: bool) -> Result<(), Failure> {
    let next = client.get(&format!("/v1/evaluation/{id}")).await.tried("Error reading evaluation")?;
    let until = nanos_of(text(&next["WaitUntil"])).map_or(0, |at| (at - now()).max(0));
    let wait = next["Wait"].as_i64().unwrap_or(0).max(until);
    if wait > 0 {
        step(&format!("Monitoring next evaluation \"{}\" in {}", shown(id, verbose), go_duration(wait)));
        tokio::time::sleep(Duration::from_nanos(wait.unsigned_abs())).await;
    }
    Ok(())
}

/// Says how an evaluation ended; `true`: it could not place everything.
fn ended(eval: &Value, verbose: bool) -> bool {
    let id = shown(text(&eval["ID"]), verbose);
    let status = text(&eval["Status"]);
    let failed = eval["FailedTGAllocs"].as_object().filter(|groups| !groups.is_empty());
    let Some(failed) = failed else {
        step(&format!("Evaluation \"{id}\" finished with status \"{status}\""));
        return false;
    };
    step(&format!("Evaluation \"{id}\" finished with status \"{status}\" but failed to place all allocations:"));
    let sorted: BTreeMap<&String, &Value> = failed.iter().collect();
    for (group, metric) in sorted {
        let count = metric["CoalescedFailures"].as_u64().unwrap_or(0) + 1;
        let plural = if count > 1 { "s" } else { "" };
        detail(&format!("Task Group \"{group}\" (failed to place {count} allocation{plural}):"));
        outln!("{}", indented(&metrics::lines(metric, false, "  "), "    "));
    }
    let blocked = text(&eval["BlockedEval"]);
    if !blocked.is_empty() {
        let blocked = shown(blocked, verbose);
        detail(&format!("Evaluation \"{blocked}\" waiting for additional capacity to place remainder"));
    }
    true
}

/// Parts of an evaluation that were told.
#[derive(Default)]
struct Seen {
    node: String,
    job: String,
    deployment: String,
    status: String,
    /// Status of each allocation.
    allocs: BTreeMap<String, String>,
}

impl Seen {
    async fn tell(&mut self, client: &Client, eval: &Value, verbose: bool) -> Result<(), Failure> {
        let news = |known: &mut String, now: &str| {
            let new = known.is_empty() && !now.is_empty();
            if new {
                now.clone_into(known);
            }
            new
        };
        if news(&mut self.node, text(&eval["NodeID"])) {
            detail(&format!("Evaluation triggered by node \"{}\"", shown(&self.node, verbose)));
        }
        if news(&mut self.job, text(&eval["JobID"])) && self.node.is_empty() {
            detail(&format!("Evaluation triggered by job \"{}\"", self.job));
        }
        if news(&mut self.deployment, text(&eval["DeploymentID"])) {
            detail(&format!("Evaluation within deployment: \"{}\"", shown(&self.deployment, verbose)));
        }
        let path = format!("/v1/evaluation/{}/allocations", text(&eval["ID"]));
        let allocs = client.get(&path).await.tried("Error reading allocations")?;
        for alloc in allocs.as_array().into_iter().flatten() {
            self.alloc(eval, alloc, verbose);
        }
        let status = text(&eval["Status"]);
        // The status at first sight is no change.
        if !self.status.is_empty() && self.status != status && status != "pending" {
            detail(&format!("Evaluation status changed: \"{}\" -> \"{status}\"", self.status));
        }
        status.clone_into(&mut self.status);
        Ok(())
    }

    fn alloc(&mut self, eval: &Value, alloc: &Value, verbose: bool) {
        let (id, status) = (text(&alloc["ID"]), text(&alloc["ClientStatus"]));
        let short = shown(id, verbose);
        let Some(before) = self.allocs.insert(id.to_owned(), status.to_owned()) else {
            let group = text(&alloc["TaskGroup"]);
            let node = shown(text(&alloc["NodeID"]), verbose);
            if alloc["CreateIndex"].as_u64() < eval["CreateIndex"].as_u64() {
                detail(&format!("Allocation \"{short}\" modified: node \"{node}\", group \"{group}\""));
            } else if text(&alloc["DesiredStatus"]) == "run" {
                detail(&format!("Allocation \"{short}\" created: node \"{node}\", group \"{group}\""));
            }
            return;
        };
        if before != status {
            let description = text(&alloc["ClientDescription"]);
            detail(&format!("Allocation \"{short}\" status changed: \"{before}\" -> \"{status}\" ({description})"));
        }
    }
}
