//! Monitors of deployments, and deployments in words.

use std::collections::BTreeMap;

use serde_json::Value;

use super::live::Drawing;
use super::{Look, regions};
use crate::client::{Client, text, with_query};
use crate::exit::{Failure, Tried};
use crate::ids::shown;
use crate::jobs::lists::{allocs, items, newest_first};
use crate::layout::{self, heading, list};
use crate::outln;
use crate::values::{stamp, time_of};

/// Longest wait of a blocking query.
const WAIT: &str = "2s";

/// Follows a deployment, and the one that a failed one reverts to. `true`: it ended well.
///
/// # Errors
/// A deployment cannot be read.
pub(super) async fn watch(client: &Client, id: &str, look: Look) -> Result<bool, Failure> {
    let mut id = id.to_owned();
    loop {
        let last = until_ended(client, &id, look).await?;
        let state = text(&last["Status"]);
        let reverts =
            last["TaskGroups"].as_object().into_iter().flatten().any(|(_, group)| group["AutoRevert"] == true);
        if state != "failed" || !reverts || text(&last["StatusDescription"]).contains("no stable job version") {
            return Ok(state == "successful");
        }
        // The reverted job's deployment is the newest one; without one there is nothing to go on with.
        let path = format!("/v1/job/{}/deployment", crate::client::escape(text(&last["JobID"])));
        let newest = client.get(&path).await.tried("Error fetching the latest deployment")?;
        if text(&newest["ID"]).is_empty() || text(&newest["ID"]) == id {
            return Ok(false);
        }
        text(&newest["ID"]).clone_into(&mut id);
    }
}

/// Shows a deployment until it has ended. Returns its last state.
async fn until_ended(client: &Client, id: &str, look: Look) -> Result<Value, Failure> {
    let mut index = 0;
    let drawing = look.in_place.then(|| Drawing::begin(&shown(id, look.verbose)));
    loop {
        let path = with_query(&format!("/v1/deployment/{id}"), &[("index", &index.to_string()), ("wait", WAIT)]);
        let answer = client.ask(&path).await.tried("Error fetching deployment")?;
        let deployment = answer.value;
        let status = text(&deployment["Status"]);
        let has_ended = matches!(status, "failed" | "successful" | "cancelled");
        match &drawing {
            Some(drawing) if answer.index != index || has_ended => {
                let block = block(client, &deployment, look.verbose).await?;
                let block = format!("{}\n{block}{}", stamp(), allocations(client, id, look).await?);
                if has_ended { drawing.end(status, &block) } else { drawing.draw(&block) }
            }
            None if answer.index != index => {
                outln!("\n{}\n{}", stamp(), block(client, &deployment, look.verbose).await?);
            }
            Some(_) | None => {}
        }
        index = answer.index;
        if has_ended {
            return Ok(deployment);
        }
    }
}

/// The section `Allocations` of a deployment; empty without `verbose`.
async fn allocations(client: &Client, id: &str, look: Look) -> Result<String, Failure> {
    if !look.verbose {
        return Ok(String::new());
    }
    let path = format!("/v1/deployment/allocations/{id}");
    let found = newest_first(client.get(&path).await.tried("Error fetching deployment allocations")?);
    Ok(format!("\n\n{}\n{}", heading("Allocations"), allocs(items(&found), true, true)))
}

/// The block of a deployment, the deployments of other regions, and the table `Deployed` of its groups.
///
/// # Errors
/// The job of a multiregion deployment cannot be read.
pub async fn block(client: &Client, deployment: &Value, verbose: bool) -> Result<String, Failure> {
    let mut out = layout::block(&[
        ("ID", shown(text(&deployment["ID"]), verbose)),
        ("Job ID", text(&deployment["JobID"]).to_owned()),
        ("Job Version", deployment["JobVersion"].to_string()),
        ("Status", text(&deployment["Status"]).to_owned()),
        ("Description", text(&deployment["StatusDescription"]).to_owned()),
    ]);
    let groups: BTreeMap<&String, &Value> = deployment["TaskGroups"].as_object().into_iter().flatten().collect();
    let regions = regions::table(client, deployment, verbose).await?;
    if !regions.is_empty() {
        out.push_str(&format!("\n\n{regions}"));
    }
    if !groups.is_empty() {
        out.push_str(&format!("\n\n{}\n{}", heading("Deployed"), deployed(&groups)));
    }
    Ok(out)
}

fn deployed(groups: &BTreeMap<&String, &Value>) -> String {
    let any = |fits: fn(&Value) -> bool| groups.values().any(|group| fits(group));
    let canaries = |group: &Value| group["DesiredCanaries"].as_i64().unwrap_or(0) > 0;
    let (reverts, promotes) = (any(|group| group["AutoRevert"] == true), groups.values().any(|group| canaries(group)));
    let deadlines = any(|group| group["ProgressDeadline"].as_i64().unwrap_or(0) > 0);
    let mut headings = vec!["Task Group"];
    let optional = [(reverts, "Auto Revert"), (promotes, "Promoted"), (true, "Desired"), (promotes, "Canaries")];
    headings.extend(optional.iter().filter(|(shown, _)| *shown).map(|(_, name)| *name));
    headings.extend(["Placed", "Healthy", "Unhealthy"]);
    if deadlines {
        headings.push("Progress Deadline");
    }
    let number = |group: &Value, key: &str| group[key].as_i64().unwrap_or(0).to_string();
    let row = |(name, group): (&&String, &&Value)| {
        let or_none = |text: String| if canaries(group) { text } else { "N/A".to_owned() };
        let promoted = group["Promoted"].as_bool().unwrap_or(false);
        let mut row = vec![(*name).clone()];
        let cells = [
            (reverts, group["AutoRevert"].as_bool().unwrap_or(false).to_string()),
            (promotes, or_none(promoted.to_string())),
            (true, number(group, "DesiredTotal")),
            (promotes, or_none(number(group, "DesiredCanaries"))),
        ];
        row.extend(cells.into_iter().filter(|(shown, _)| *shown).map(|(_, cell)| cell));
        row.extend(["PlacedAllocs", "HealthyAllocs", "UnhealthyAllocs"].map(|key| number(group, key)));
        if deadlines {
            let by = time_of(text(&group["RequireProgressBy"]));
            row.push(if by.is_empty() { "N/A".to_owned() } else { by });
        }
        row
    };
    list(&headings, &groups.iter().map(row).collect::<Vec<_>>())
}
