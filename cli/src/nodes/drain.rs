//! `node drain`: sets and removes the drain of a node, and follows it.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::find::id_of;
use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobs::lists::items;
use crate::values::stamp;
use crate::{Context, General, ask, out, outln};

/// Time until allocations that still run are stopped, unless said otherwise: an hour, in nanoseconds.
const DEADLINE: i64 = 3600 * 1_000_000_000;
/// Longest wait of a blocking query.
const WAIT: &str = "2s";

/// Arguments of `node drain`.
#[derive(Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    general: General,
    /// Return at once, without following the drain.
    #[arg(long)]
    detach: bool,
    /// Drain the node.
    #[arg(long)]
    enable: bool,
    /// Drain the node no longer.
    #[arg(long)]
    disable: bool,
    /// Time until allocations that still run are stopped; by default an hour.
    #[arg(long)]
    deadline: Option<String>,
    /// Stop all allocations at once.
    #[arg(long)]
    force: bool,
    /// Wait for allocations as long as they take.
    #[arg(long)]
    no_deadline: bool,
    /// Leave system jobs running.
    #[arg(long)]
    ignore_system: bool,
    /// Keep the node ineligible.
    #[arg(long)]
    keep_ineligible: bool,
    /// Message that is kept with the drain.
    #[arg(long = "m")]
    message: Option<String>,
    /// Metadata that is kept with the drain, `key=value`; may be given several times.
    #[arg(long)]
    meta: Vec<String>,
    /// Follow a drain.
    #[arg(long)]
    monitor: bool,
    /// Take the agent's own node.
    #[arg(long = "self")]
    own: bool,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Id of the node, or its beginning.
    node: Option<String>,
}

impl crate::Run for Drain {
    async fn run(self, _: &Context) -> Outcome {
        if [self.enable, self.disable, self.monitor].iter().filter(|set| **set).count() != 1 {
            let words = "Either the '-enable' or '-disable' flag must be set, unless using '-monitor'";
            return Err(Failure::arguments(words));
        }
        let deadline = self.deadline()?;
        if self.own == self.node.is_some() {
            return Err(Failure::arguments("Node ID must be specified if -self isn't being used"));
        }
        let client = self.general.client()?;
        let id = id_of(&client, self.node.as_deref(), self.own).await?;
        if self.monitor {
            let node = client.get(&format!("/v1/node/{id}")).await.tried("Error querying node")?;
            if node["DrainStrategy"].is_null() {
                out::warning("No drain strategy set");
                return Ok(Exit::DONE);
            }
            follow(&client, &id).await?;
            return Ok(Exit::DONE);
        }
        let was_completed = self.node.as_deref().is_some_and(|typed| typed != id);
        if !self.yes && was_completed {
            let verb = if self.enable { "enable" } else { "disable" };
            let question = format!("Are you sure you want to {verb} drain mode for node {id:?}?");
            if let Some(exit) = ask::confirm(&question, "Canceling drain toggle")? {
                return Ok(exit);
            }
        }
        self.set(&client, &id, deadline).await
    }
}

impl Drain {
    fn deadline(&self) -> Result<i64, Failure> {
        if self.deadline.is_some() && (self.force || self.no_deadline) {
            return Err(Failure::arguments("-deadline can't be combined with -force or -no-deadline"));
        }
        if self.force && self.no_deadline {
            return Err(Failure::arguments("-force and -no-deadline are mutually exclusive"));
        }
        if self.force {
            return Ok(-1_000_000_000);
        }
        if self.no_deadline {
            return Ok(0);
        }
        let Some(typed) = &self.deadline else { return Ok(DEADLINE) };
        let nanos = songline_lang::duration::parse(typed).map_err(|_| {
            Failure::new(format!("Failed to parse deadline {typed:?}: it must be a duration such as 30m"))
        })?;
        if nanos <= 0 {
            return Err(Failure::arguments("A positive drain duration must be given"));
        }
        Ok(nanos)
    }

    async fn set(&self, client: &Client, id: &str, deadline: i64) -> Outcome {
        let mut meta = Map::new();
        for pair in &self.meta {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            meta.insert(key.to_owned(), json!(value));
        }
        if let Some(message) = &self.message {
            let key = if self.enable { "message" } else { "cancel_message" };
            meta.insert(key.to_owned(), json!(message));
        }
        let spec = if self.enable {
            json!({"Deadline": deadline, "IgnoreSystemJobs": self.ignore_system})
        } else {
            Value::Null
        };
        let body = json!({
            "NodeID": id,
            "DrainSpec": spec,
            "MarkEligible": !self.enable && !self.keep_ineligible,
            "Meta": meta,
        });
        client.put(&format!("/v1/node/{id}/drain"), &body).await.tried("Error updating drain specification")?;
        if self.disable {
            outln!("Node {id:?} drain strategy unset");
            return Ok(Exit::DONE);
        }
        if self.detach {
            outln!("Node {id:?} drain strategy set");
            return Ok(Exit::DONE);
        }
        outln!("{}: Ctrl-C to stop monitoring: will not cancel the node drain", stamp());
        outln!("{}: Node {id:?} drain strategy set", stamp());
        follow(client, id).await?;
        Ok(Exit::DONE)
    }
}

/// Prints what becomes of a drain until it is over and all allocations that it moves have stopped.
async fn follow(client: &Client, id: &str) -> Result<(), Failure> {
    let (mut index, mut is_draining) = (0, true);
    let mut seen = BTreeMap::new();
    loop {
        let node = client.get(&format!("/v1/node/{id}")).await.tried("Error monitoring node")?;
        let (complete, ignores_system) =
            (node["DrainStrategy"].is_null(), node["DrainStrategy"]["IgnoreSystemJobs"] == true);
        let path = with_query(&format!("/v1/node/{id}/allocations"), &[("index", &index.to_string()), ("wait", WAIT)]);
        let answer = client.ask(&path).await.tried("Error monitoring allocations")?;
        index = answer.index;
        let allocs = items(&answer.value);
        for line in allocs.iter().flat_map(|alloc| news(alloc, &mut seen)) {
            outln!("{}: {line}", stamp());
        }
        if complete && is_draining {
            outln!("{}: Drain complete for node {id}", stamp());
            is_draining = false;
        }
        let moves = |alloc: &&Value| {
            let is_system = matches!(text(&alloc["Job"]["Type"]), "system" | "sysbatch");
            let has_ended = matches!(text(&alloc["ClientStatus"]), "complete" | "failed" | "lost");
            !has_ended && (!is_system || !ignores_system)
        };
        if !is_draining && !allocs.iter().any(|alloc| moves(&alloc)) {
            outln!("{}: All allocations on node {id:?} have stopped", stamp());
            return Ok(());
        }
    }
}

/// State of an allocation that was told.
struct Told {
    status: String,
    is_marked: bool,
    stops: bool,
}

/// Lines about what has changed of an allocation since it was seen before.
fn news(alloc: &Value, seen: &mut BTreeMap<String, Told>) -> Vec<String> {
    let (id, status) = (text(&alloc["ID"]), text(&alloc["ClientStatus"]));
    let is_marked = alloc["DesiredTransition"]["Migrate"] == true;
    let stops = text(&alloc["DesiredStatus"]) == "stop";
    let before = seen.insert(id.to_owned(), Told { status: status.to_owned(), is_marked, stops });
    let Some(before) = before else { return Vec::new() };
    let mut lines = Vec::new();
    if is_marked && !before.is_marked {
        lines.push(format!("Alloc {id:?} marked for migration"));
    }
    if is_marked && stops && !before.stops {
        lines.push(format!("Alloc {id:?} draining"));
    }
    if before.status != status {
        lines.push(format!("Alloc {id:?} status {} -> {status}", before.status));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_alloc_drains_before_its_status_changes() {
        let mut seen = BTreeMap::new();
        let mut see = |migrates: bool, desired: &str, status: &str| {
            let alloc = json!({
                "ID": "a", "ClientStatus": status, "DesiredStatus": desired,
                "DesiredTransition": {"Migrate": migrates},
            });
            news(&alloc, &mut seen).join(", ")
        };
        assert_eq!(see(false, "run", "running"), "");
        assert_eq!(see(true, "run", "running"), r#"Alloc "a" marked for migration"#);
        assert_eq!(see(true, "stop", "running"), r#"Alloc "a" draining"#);
        assert_eq!(see(true, "stop", "complete"), r#"Alloc "a" status running -> complete"#);
        assert_eq!(see(true, "stop", "complete"), "");
    }

    #[test]
    fn stop_of_an_unmarked_alloc_is_no_drain() {
        let mut seen = BTreeMap::new();
        let alloc = |desired: &str| json!({"ID": "a", "ClientStatus": "running", "DesiredStatus": desired});
        assert!(news(&alloc("run"), &mut seen).is_empty());
        assert!(news(&alloc("stop"), &mut seen).is_empty());
    }
}
