//! What-if questions: the rights that they need, and what callers see of the answer. The schedulers' part is not here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use songline_model::{AllocOutcome, JobKey, JobOutcome, WhatIf};
use songline_projections::State;

use crate::world::{MANAGEMENT, ask, token_with, told, world};

const READS: &str = "namespace \"default\" { policy = \"read\" }";
const READS_BOTH: &str = "namespace \"default\" { policy = \"read\" } namespace \"other\" { policy = \"read\" }";

/// The answer of the server in memory to every question: every allocation would be stopped.
pub fn everything_stops(view: &State) -> WhatIf {
    let mut jobs: BTreeMap<JobKey, JobOutcome> = BTreeMap::new();
    for alloc in view.allocs() {
        let job = jobs.entry(alloc.job_key()).or_default();
        (job.namespace, job.id) = (alloc.namespace.clone(), alloc.job_id.clone());
        let (name, from) = (alloc.name.clone(), alloc.node_name.clone());
        job.stopped.push(AllocOutcome { name, from, alloc_id: Some(alloc.id), ..AllocOutcome::default() });
    }
    WhatIf { index: view.applied_index(), jobs: jobs.into_values().collect(), nodes: Vec::new() }
}

#[tokio::test]
async fn what_if_shows_jobs_of_readable_namespaces_only_and_needs_the_rights_to_what_it_names() {
    let server = world().await;
    let here = token_with(&server, 7, READS);
    let both = token_with(&server, 8, &format!("{READS_BOTH} node {{ policy = \"read\" }}"));
    let ask = |secret: String, change: &'static str| {
        let server = Arc::clone(&server);
        async move {
            let target = format!("PUT /v1/what-if {{\"Changes\": [{change}]}}");
            let (status, body) = ask(&server, &secret, &target).await;
            let answer: Value = serde_json::from_str(&body).unwrap_or_default();
            let jobs = answer["Jobs"].as_array().cloned().unwrap_or_default();
            let names: BTreeSet<String> =
                jobs.iter().map(|job| job["Namespace"].as_str().unwrap_or("").into()).collect();
            let leaves =
                answer["Nodes"].as_array().into_iter().flatten().map(|node| node["Leaves"].as_u64().unwrap_or(0));
            let leaves: u64 = leaves.sum();
            let shown: u64 = jobs.iter().map(|job| job["Stopped"].as_array().map_or(0, Vec::len) as u64).sum();
            assert!(leaves <= shown, "a node's numbers tell of no hidden allocation: {body}");
            format!("{} {}", status.as_u16(), names.into_iter().collect::<Vec<_>>().join(" "))
        }
    };
    let stop = r#"{"Deregister": {"ID": "web"}}"#;
    assert_eq!(ask(here.clone(), stop).await, "200 default");
    assert_eq!(ask(both.clone(), stop).await, "200 default other");
    assert_eq!(ask(here.clone(), r#"{"Deregister": {"Namespace": "other", "ID": "none"}}"#).await, "403 ");
    let drain = r#"{"DrainNodes": ["01010101-0101-0101-0101-010101010101"]}"#;
    assert_eq!(ask(here.clone(), drain).await, "403 ");
    assert_eq!(ask(both.clone(), drain).await, "200 default other");
    assert_eq!(ask(both.clone(), r#"{"Configure": {"SchedulerAlgorithm": "spread"}}"#).await, "403 ");
    assert_eq!(ask(both.clone(), r#"{"Register": {"ID": "x"}}"#).await, "403 ");
    assert_eq!(ask(both, "{}").await, "400 ");
}

#[tokio::test]
async fn what_if_refuses_a_job_that_a_registration_refuses() {
    let server = world().await;
    let secret = MANAGEMENT.to_string();
    for mount in [r#"{"Volume": "v"}"#, r#"{"Destination": "/v"}"#] {
        let group =
            format!(r#"{{"Name": "g", "Tasks": [{{"Name": "t", "Driver": "raw_exec", "VolumeMounts": [{mount}]}}]}}"#);
        let job = format!(r#"{{"ID": "x", "TaskGroups": [{group}]}}"#);
        for line in [
            format!(r#"PUT /v1/what-if {{"Changes": [{{"Register": {job}}}]}}"#),
            format!(r#"PUT /v1/jobs {{"Job": {job}}}"#),
        ] {
            let answer = told(&server, &secret, &line).await;
            assert_eq!(answer, "400 volume mount needs Volume and Destination", "{line}");
        }
    }
}
