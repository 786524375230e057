//! The state of the jobs, and the answer of a dry run, in the form of the recordings.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Map, Value, json};
use songline_sim::simulation::Stage;

use crate::labels::{LabelledJob, Labels, encoded, list, text};
use crate::metrics::{by_group, is_empty, metrics, without_empty};
use crate::play::ask;

/// Everything about all jobs. `wanted` is the recorded state: jobs that it says do not exist are `null`.
pub async fn state(stage: &Stage, labels: &Labels, wanted: &Value) -> Result<Value> {
    let missing = wanted["jobs"].as_object().into_iter().flatten().filter(|(_, job)| job.is_null());
    let mut jobs: Map<String, Value> = missing.map(|(id, _)| (id.clone(), Value::Null)).collect();
    for job in &labels.jobs {
        jobs.insert(job.label.clone(), one_job(stage, labels, job).await?);
    }
    Ok(json!({ "jobs": jobs }))
}

async fn one_job(stage: &Stage, labels: &Labels, job: &LabelledJob) -> Result<Value> {
    let path = format!("/v1/job/{}", encoded(&job.id));
    let row = ask(stage, "GET", &path, Value::Null).await?.done()?;
    let mut told = Map::new();
    told.insert("Job".into(), only(&row, &["Type", "Version", "Status", "Stop", "Priority"]));
    told.insert("Evals".into(), evals(list(stage, &format!("{path}/evaluations")).await?, labels));
    let mut allocs = Map::new();
    for (label, id) in &job.allocs {
        let row = ask(stage, "GET", &format!("/v1/allocation/{id}"), Value::Null).await?.done()?;
        allocs.insert(label.clone(), alloc(&row, labels));
    }
    told.insert("Placed".into(), placed(&allocs, labels));
    told.insert("Allocs".into(), Value::Object(allocs));
    let mut deployments = list(stage, &format!("{path}/deployments?all=true")).await?;
    deployments.sort_by_key(|row| row["CreateIndex"].as_u64());
    if !deployments.is_empty() {
        told.insert("Deployments".into(), deployments.iter().map(|row| deployment(row, labels)).collect());
    }
    Ok(Value::Object(told))
}

/// Evaluations in order of creation. Those of the deployment watcher that look the same are listed once.
fn evals(mut rows: Vec<Value>, labels: &Labels) -> Value {
    rows.sort_by_cached_key(|row| (row["CreateIndex"].as_u64(), row["CreateTime"].as_u64()));
    // The place of an evaluation in the list, by its id.
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<(Value, &Value)> = Vec::new();
    for row in &rows {
        let told = eval(row, labels);
        let same = kept.iter().position(|(before, _)| *before == told && told["TriggeredBy"] == "deployment-watcher");
        places.insert(text(row, "ID"), same.unwrap_or(kept.len()));
        if same.is_none() {
            kept.push((told, row));
        }
    }
    let place = |(mut told, row): (Value, &Value)| {
        for key in ["BlockedEval", "NextEval", "PreviousEval"] {
            if let Some(id) = row[key].as_str().filter(|id| !id.is_empty()) {
                told[key] = places.get(id).map_or(json!("gone"), |place| json!(place));
            }
        }
        told
    };
    kept.into_iter().map(place).collect()
}

/// One evaluation, without its relatives.
fn eval(row: &Value, labels: &Labels) -> Value {
    let mut told = only(row, &["Type", "TriggeredBy", "Priority", "Status"]);
    let mut put = |key: &str, value: Value| {
        if !is_empty(&value) {
            told[key] = value;
        }
    };
    put("StatusDescription", json!(labels.text(&text(row, "StatusDescription"))));
    put("Node", json!(labels.text(&text(row, "NodeID"))));
    put("QueuedAllocations", row["QueuedAllocations"].clone());
    put("FailedTGAllocs", Value::Object(by_group(&row["FailedTGAllocs"], labels)));
    let classes = row["ClassEligibility"].as_object().into_iter().flatten();
    put("ClassEligibility", classes.map(|(class, is)| (labels.class(class), is.clone())).collect());
    put("EscapedComputedClass", row["EscapedComputedClass"].clone());
    put("HasDeployment", json!(!is_empty(&row["DeploymentID"])));
    put("Wait", row["Wait"].clone());
    put("HasWaitUntil", json!(row["WaitUntil"].as_str().is_some_and(|at| !at.starts_with("0001-"))));
    told
}

fn alloc(row: &Value, labels: &Labels) -> Value {
    let mut told = json!({
        "Name": labels.text(&text(row, "Name")),
        "Group": row["TaskGroup"],
        "Node": row["NodeName"],
        "JobVersion": row["Job"]["Version"],
        "DesiredStatus": row["DesiredStatus"],
        "ClientStatus": row["ClientStatus"],
        "Metrics": metrics(&row["Metrics"], labels),
        "Resources": resources(&row["AllocatedResources"]["Tasks"]),
    });
    let mut put = |key: &str, value: Value| {
        if !is_empty(&value) {
            told[key] = value;
        }
    };
    put("DesiredDescription", json!(labels.text(&text(row, "DesiredDescription"))));
    for key in ["PreviousAllocation", "NextAllocation"] {
        put(key, json!(labels.text(&text(row, key))));
    }
    put("PreemptedByAllocation", json!(labels.text(&text(row, "PreemptedByAllocation"))));
    let preempted = row["PreemptedAllocations"].as_array().into_iter().flatten();
    put("PreemptedAllocations", preempted.map(|id| json!(labels.text(id.as_str().unwrap_or_default()))).collect());
    put("HasDeployment", json!(!is_empty(&row["DeploymentID"])));
    put("HasFollowupEval", json!(!is_empty(&row["FollowupEvalID"])));
    if let Some(status) = row["DeploymentStatus"].as_object() {
        put("DeploymentStatus", json!({ "Healthy": status.get("Healthy"), "Canary": status.get("Canary") }));
    }
    let events = row["RescheduleTracker"]["Events"].as_array().into_iter().flatten();
    let event = |row: &Value| {
        json!({ "PrevAlloc": labels.text(&text(row, "PrevAllocID")), "PrevNode": labels.text(&text(row, "PrevNodeID")),
            "Delay": row["Delay"] })
    };
    put("RescheduleTracker", events.map(event).collect());
    // The recordings have them in the order of their labels.
    let mut ports = row["AllocatedResources"]["Shared"]["Ports"].as_array().cloned().unwrap_or_default();
    ports.sort_by_cached_key(|port| text(port, "Label"));
    put("Ports", ports.iter().map(|port| json!([port["Label"], port["Value"], port["To"]])).collect());
    told
}

/// Resources by task.
fn resources(tasks: &Value) -> Value {
    let task = |row: &Value| {
        let mut told = json!({ "Cpu": row["Cpu"]["CpuShares"], "Memory": row["Memory"]["MemoryMB"] });
        for (key, value) in [("MemoryMax", &row["Memory"]["MemoryMaxMB"]), ("Cores", &row["Cpu"]["ReservedCores"])] {
            if !is_empty(value) {
                told[key] = value.clone();
            }
        }
        told
    };
    tasks.as_object().into_iter().flatten().map(|(name, row)| (name.clone(), task(row))).collect()
}

/// Numbers of allocations that run or will run, by properties of their nodes.
fn placed(allocs: &Map<String, Value>, labels: &Labels) -> Value {
    let mut told = json!({ "Node": {}, "Datacenter": {}, "Rack": {}, "NodeClass": {} });
    let runs = |row: &&Value| {
        row["DesiredStatus"] == "run" && matches!(row["ClientStatus"].as_str(), Some("pending" | "running"))
    };
    for row in allocs.values().filter(runs) {
        let name = text(row, "Node");
        let Some(node) = labels.nodes.get(&name) else { continue };
        let rack = node.meta.as_ref().and_then(|meta| meta.get("rack")).map_or("", |rack| rack.as_str());
        let properties = [
            ("Node", name.as_str()),
            ("Datacenter", &node.datacenter),
            ("Rack", rack),
            ("NodeClass", &node.node_class),
        ];
        for (property, value) in properties {
            let count = told[property][value].as_u64().unwrap_or(0);
            told[property][value] = json!(count + 1);
        }
    }
    told
}

fn deployment(row: &Value, labels: &Labels) -> Value {
    let mut told = only(row, &["JobVersion", "Status", "StatusDescription"]);
    let group = |row: &Value| {
        const KEYS: [&str; 8] = [
            "AutoPromote",
            "AutoRevert",
            "DesiredCanaries",
            "DesiredTotal",
            "PlacedAllocs",
            "HealthyAllocs",
            "UnhealthyAllocs",
            "Promoted",
        ];
        let mut told = only(row, &KEYS);
        let canaries = row["PlacedCanaries"].as_array().into_iter().flatten();
        let mut canaries: Vec<String> = canaries.filter_map(|id| Some(labels.text(id.as_str()?))).collect();
        canaries.sort();
        told["PlacedCanaries"] = json!(canaries);
        told
    };
    let groups = row["TaskGroups"].as_object().into_iter().flatten();
    told["TaskGroups"] = groups.map(|(name, row)| (name.clone(), group(row))).collect();
    told
}

/// The answer of a dry run.
pub fn plan(row: &Value, labels: &Labels) -> Value {
    let updates = row["Annotations"]["DesiredTGUpdates"].as_object().into_iter().flatten();
    let preempted = row["Annotations"]["PreemptedAllocs"].as_array().into_iter().flatten();
    let mut preempted: Vec<String> = preempted.map(|row| labels.text(&text(row, "ID"))).collect();
    preempted.sort();
    let evals = row["CreatedEvals"].as_array().into_iter().flatten();
    let mut told = json!({
        "DesiredTGUpdates": updates.map(|(group, row)| (group.clone(), without_empty(row))).collect::<Map<_, _>>(),
        "PreemptedAllocs": preempted,
        "CreatedEvals": evals.map(|row| only(row, &["TriggeredBy", "Status", "Type"])).collect::<Value>(),
        "FailedTGAllocs": by_group(&row["FailedTGAllocs"], labels),
        "Diff": diff(&row["Diff"]),
    });
    if !is_empty(&row["Warnings"]) {
        told["Warnings"] = row["Warnings"].clone();
    }
    if row["NextPeriodicLaunch"].as_str().is_some_and(|at| !at.starts_with("0001-")) {
        told["HasNextPeriodicLaunch"] = json!(true);
    }
    told
}

fn diff(row: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let group = |row: &Value| {
        let fields = list(&row["Fields"]).into_iter().filter(|field| field["Type"] != "None");
        let tasks = list(&row["Tasks"]).into_iter();
        json!({
            "Name": row["Name"],
            "Type": row["Type"],
            "Updates": row["Updates"].as_object().cloned().unwrap_or_default(),
            "Fields": fields.map(|field| (text(&field, "Name"), json!(list(&field["Annotations"])))).collect::<Map<_, _>>(),
            "Tasks": tasks
                .map(|task| (text(&task, "Name"), json!([task["Type"], list(&task["Annotations"])])))
                .collect::<Map<_, _>>(),
        })
    };
    json!({ "Type": row["Type"], "TaskGroups": list(&row["TaskGroups"]).iter().map(group).collect::<Value>() })
}

/// An object with only these keys.
fn only(row: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), row[*key].clone())).collect()
}
