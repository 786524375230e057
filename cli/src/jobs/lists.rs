//! Lists of jobs, allocations, deployments and evaluations.

use serde_json::Value;

use crate::client::text;
use crate::ids::shown;
use crate::layout::list;
use crate::values::{age, now, time};

/// Items of a JSON list.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The items of a list, the newest first: the order of the reference's client.
pub(crate) fn newest_first(mut list: Value) -> Value {
    if let Some(items) = list.as_array_mut() {
        items.sort_by_key(|item| std::cmp::Reverse(item["CreateIndex"].as_u64()));
    }
    list
}

/// Type of a job with what launches it: `batch/periodic`.
pub(crate) fn kind(job: &Value) -> String {
    let is = |key: &str| job[key] == true || job[key].is_object();
    let mut kind = text(&job["Type"]).to_owned();
    for (key, word) in [("Periodic", "/periodic"), ("ParameterizedJob", "/parameterized")] {
        if is(key) {
            kind.push_str(word);
        }
    }
    kind
}

/// Status of a job, and whether an operator has stopped it.
pub(crate) fn state(job: &Value) -> String {
    let status = text(&job["Status"]);
    if job["Stop"] == true { format!("{status} (stopped)") } else { status.to_owned() }
}

/// A list of jobs; with namespaces where all of them are shown.
pub(crate) fn jobs(jobs: &[Value], namespaces: bool) -> String {
    let row = |job: &Value| {
        let mut cells = vec![text(&job["ID"]).to_owned()];
        if namespaces {
            let of_summary = text(&job["JobSummary"]["Namespace"]);
            let own = text(&job["Namespace"]);
            cells.push(if own.is_empty() { of_summary } else { own }.to_owned());
        }
        let submitted = time(job["SubmitTime"].as_i64().unwrap_or(0));
        cells.extend([kind(job), job["Priority"].to_string(), state(job), submitted]);
        cells
    };
    let mut headings = vec!["ID", "Type", "Priority", "Status", "Submit Date"];
    if namespaces {
        headings.insert(1, "Namespace");
    }
    list(&headings, &jobs.iter().map(row).collect::<Vec<_>>())
}

/// A list of allocations. `node_names` adds a column that only full lists have.
pub(crate) fn allocs(allocs: &[Value], verbose: bool, node_names: bool) -> String {
    if allocs.is_empty() {
        return "No allocations placed".to_owned();
    }
    let now = now();
    let row = |alloc: &Value| {
        let id = |key: &str| shown(text(&alloc[key]), verbose);
        let when = |key: &str| {
            let at = alloc[key].as_i64().unwrap_or(0);
            if verbose { time(at) } else { age(at, now) }
        };
        let mut cells = vec![id("ID")];
        if verbose {
            cells.push(id("EvalID"));
        }
        cells.push(id("NodeID"));
        if verbose && node_names {
            cells.push(text(&alloc["NodeName"]).to_owned());
        }
        cells.extend([
            text(&alloc["TaskGroup"]).to_owned(),
            version(alloc).to_string(),
            text(&alloc["DesiredStatus"]).to_owned(),
            text(&alloc["ClientStatus"]).to_owned(),
            when("CreateTime"),
            when("ModifyTime"),
        ]);
        cells
    };
    let mut headings = vec!["ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"];
    if verbose {
        headings.insert(1, "Eval ID");
        if node_names {
            headings.insert(3, "Node Name");
        }
    }
    list(&headings, &allocs.iter().map(row).collect::<Vec<_>>())
}

/// Version of the job of an allocation. Stubs have it as a field, whole rows, as those of a node, in their job.
fn version(alloc: &Value) -> u64 {
    alloc["JobVersion"].as_u64().or_else(|| alloc["Job"]["Version"].as_u64()).unwrap_or(0)
}

/// A list of deployments.
pub(crate) fn deployments(deployments: &[Value], verbose: bool) -> String {
    if deployments.is_empty() {
        return "No deployments found".to_owned();
    }
    let row = |one: &Value| {
        vec![
            shown(text(&one["ID"]), verbose),
            text(&one["JobID"]).to_owned(),
            one["JobVersion"].to_string(),
            text(&one["Status"]).to_owned(),
            text(&one["StatusDescription"]).to_owned(),
        ]
    };
    let headings = ["ID", "Job ID", "Job Version", "Status", "Description"];
    list(&headings, &deployments.iter().map(row).collect::<Vec<_>>())
}

/// Evaluations of one job.
pub(crate) fn evals(evals: &[Value], verbose: bool) -> String {
    let row = |eval: &Value| {
        let failures = eval["FailedTGAllocs"].as_object().is_some_and(|groups| !groups.is_empty());
        let failures = match text(&eval["Status"]) {
            "blocked" => "N/A - In Progress".to_owned(),
            _ => failures.to_string(),
        };
        vec![
            shown(text(&eval["ID"]), verbose),
            eval["Priority"].to_string(),
            text(&eval["TriggeredBy"]).to_owned(),
            text(&eval["Status"]).to_owned(),
            failures,
        ]
    };
    list(
        &["ID", "Priority", "Triggered By", "Status", "Placement Failures"],
        &evals.iter().map(row).collect::<Vec<_>>(),
    )
}
