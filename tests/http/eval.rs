//! Deleting evaluations by hand on a running agent, and across its restart. Not here: which may be deleted, which
//! recorded conversations test.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::http::Request;
use crate::story::Story;

const EVALS: usize = 1500;

fn pause(story: &Story, paused: bool) -> Result<()> {
    story.put("/v1/operator/scheduler/configuration", &json!({ "PauseEvalBroker": paused })).map(drop)
}

/// Forces `count` evaluations of the job.
fn make_evals(story: &Story, count: usize) -> Result<()> {
    story.put(
        "/v1/jobs",
        &json!({"Job": {
            "ID": "slices", "Type": "batch",
            "TaskGroups": [{"Name": "g", "Count": 0, "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "10ms"}}]}],
        }}),
    )?;
    for _ in 1..count {
        story.put("/v1/job/slices/evaluate", &json!({"JobID": "slices"}))?;
    }
    ensure!(count_of(story, "")? == count as u64, "{}", count_of(story, "")?);
    Ok(())
}

fn count_of(story: &Story, query: &str) -> Result<u64> {
    story.get(&format!("/v1/evaluations/count{query}"))?["Count"].as_u64().context("a count is a number")
}

fn delete(story: &Story, filter: &str) -> Result<Value> {
    let answer = story.call(&Request::new("DELETE", "/v1/evaluations").json(&json!({ "Filter": filter })))?;
    Ok(answer.json()?)
}

#[test]
fn eval_deletion_in_slices_is_complete_and_counts_exactly() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data");
    let story = Story { agent: Agent::start(&Setup { data_dir: Some(data_dir.clone()), ..Setup::dev() })? };
    pause(&story, true)?;
    make_evals(&story, EVALS)?;
    let one = oldest(&story)?;
    let answer = delete(&story, &format!("ID != \"{one}\""))?;
    ensure!(answer["Count"] == EVALS - 1, "{answer}");
    ensure!(count_of(&story, "")? == 1);
    let work = story.get("/v1/operator/pending-work")?;
    ensure!(work[0]["Status"] == "complete" && work[0]["Deleted"] == EVALS - 1 && work[0]["Total"] == EVALS, "{work}");
    ensure!(work[0]["ModifyIndex"] == answer["Index"], "{work} {answer}");
    // More than one entry deleted them, unless one slice was larger than all of them.
    ensure!(work[0]["ModifyIndex"].as_u64() > work[0]["CreateIndex"].as_u64(), "{work}");

    story.agent.interrupt()?;
    let again = Story { agent: Agent::start(&Setup { data_dir: Some(data_dir), ..Setup::dev() })? };
    ensure!(again.get("/v1/operator/pending-work")?[0]["Status"] == "complete");
    ensure!(count_of(&again, "")? == 1);
    pause(&again, false)?;
    again.wait(&format!("/v1/evaluation/{one}"), |eval| eval["Status"] == "complete")?;
    Ok(())
}

/// The oldest evaluation.
fn oldest(story: &Story) -> Result<String> {
    let list = story.get("/v1/evaluations?per_page=1")?;
    Ok(list[0]["ID"].as_str().context("an evaluation has an id")?.to_owned())
}
