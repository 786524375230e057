//! A running agent compared with its own OpenAPI document: the answer of every reading route has the documented
//! shape.

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::http::Request;
use crate::shapes::Document;
use crate::story::Story;

/// Routes that cannot be tested on this agent: they need an object that does not exist, or never end.
const NOT_ASKED: [&str; 13] = [
    "/debug/pprof/",
    "/v1/agent/keyring/",
    "/v1/agent/monitor",
    "/v1/agent/pprof/",
    "/v1/acl/",
    "/v1/client/fs/",
    "/v1/event/stream",
    "/v1/operator/license",
    "/v1/operator/pending-work/",
    "/v1/operator/snapshot",
    "/v1/volumes/",
    "/v1/volume/",
    "/v1/plugin/",
];

#[test]
fn answers_match_the_openapi_document_that_the_agent_serves() -> Result<()> {
    let story = Story::begin()?;
    let served = story.get("/v1/openapi.json")?;
    let document = Document::new(served.clone());

    let task = json!({"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}, "Resources": {"CPU": 20, "MemoryMB": 16}});
    let group =
        json!({"Name": "g", "Scaling": {"Max": 3}, "Services": [{"Name": "s", "Provider": "nomad"}], "Tasks": [task]});
    story.put("/v1/jobs", &json!({"Job": {"ID": "j", "TaskGroups": [group]}}))?;
    story.put("/v1/namespace", &json!({"Name": "n"}))?;
    let limit = json!({"Region": "global", "RegionLimit": {"CPU": 100}});
    story.put("/v1/quota", &json!({"Name": "s", "Limits": [limit]}))?;
    story.put("/v1/event-sink/s", &json!({"Type": "webhook", "Address": "http://127.0.0.1:1"}))?;
    story.put("/v1/node/pools", &json!({"Name": "p"}))?;
    story.put("/v1/var/a/b", &json!({"Items": {"k": "v"}}))?;
    let allocs = story.wait("/v1/job/j/allocations", |allocs| allocs[0]["ClientStatus"] == "running")?;
    let deployment = story.wait("/v1/job/j/deployment", |deployment| deployment["ID"].is_string())?;
    let policies = story.get("/v1/scaling/policies")?;
    let known = [
        ("{job_id}", json!("j")),
        ("{alloc_id}", allocs[0]["ID"].clone()),
        ("{node_id}", allocs[0]["NodeID"].clone()),
        ("{eval_id}", allocs[0]["EvalID"].clone()),
        ("{deployment_id}", deployment["ID"].clone()),
        ("{policy_id}", policies[0]["ID"].clone()),
        ("{pool}", json!("p")),
        ("{path}", json!("a/b")),
    ];

    let (mut asked, mut faults) = (0, Vec::new());
    for (template, slot) in served["paths"].as_object().context("paths")? {
        if slot.get("get").is_none() || NOT_ASKED.iter().any(|start| template.starts_with(start)) {
            continue;
        }
        let mut path = template.clone();
        for (name, value) in &known {
            path = path.replace(name, value.as_str().context("an id")?);
        }
        path = path.replace("{name}", if template.contains("namespace") { "n" } else { "s" });
        let query = match template.as_str() {
            // The first has no stored source, the others are not reads of the state.
            "/v1/job/{job_id}/submission"
            | "/v1/client/allocation/{alloc_id}/exec"
            | "/v1/client/allocation/{alloc_id}/gc"
            | "/v1/client/allocation/{alloc_id}/snapshot" => continue,
            "/v1/job/{job_id}/versions" => "?diffs=true",
            "/v1/allocations" | "/v1/nodes" => "?resources=true",
            "/v1/jobs" => "?meta=true",
            "/v1/evaluation/{eval_id}" => "?related=true",
            _ => "",
        };
        let answer = story.ask(&Request::new("GET", &format!("{path}{query}")))?;
        if answer.head.status == 501 {
            continue;
        }
        asked += 1;
        let fits = || -> Result<()> {
            let status = answer.head.status;
            ensure!(status == 200, "{status}: {}", answer.text());
            let Some(schema) = document.schema("GET", &path, status).map_err(|fault| anyhow!(fault))? else {
                return Ok(());
            };
            let value: Value = answer.json()?;
            document.fit(schema, &value, &|_| false).map_err(|fault| anyhow!(fault))
        };
        if let Err(fault) = fits() {
            faults.push(format!("{path}: {fault}"));
        }
    }
    ensure!(faults.is_empty(), "{} of {asked}:\n{}", faults.len(), faults.join("\n"));
    ensure!(asked > 55, "{asked}");
    Ok(())
}
