//! Plays a scenario: its nodes, then one step after the other over HTTP, each compared with its recording.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use songline_model::Node;
use songline_sim::simulation::{Stage, on_stage};

use crate::compare::compare;
use crate::labels::Labels;
use crate::observe;
use crate::scenario::Scenario;
use crate::settle::settled;

/// Longest virtual time of one scenario.
const SCENARIO_WITHIN: Duration = Duration::from_secs(600);
/// Deadline of a drain, in nanoseconds.
const DRAIN_DEADLINE: i64 = 3_600_000_000_000;

/// Plays a scenario with a seed. Returns the differences from what was recorded.
pub fn play(scenario: &Scenario, seed: u64) -> Vec<String> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        on_stage(seed, async |stage| {
            let mut player = Player { stage, scenario, classes: Map::new(), differences: Vec::new() };
            match tokio::time::timeout(SCENARIO_WITHIN, player.run()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => player.differences.push(format!("{error:#}")),
                Err(_) => player.differences.push(format!("it takes longer than {SCENARIO_WITHIN:?}")),
            }
            player.differences
        })
    }));
    played.unwrap_or_else(|_| vec!["it panics".to_owned()])
}

struct Player<'a> {
    stage: &'a Stage,
    scenario: &'a Scenario,
    /// Names of nodes by computed class, also of nodes that are gone.
    classes: Map<String, Value>,
    differences: Vec<String>,
}

impl Player<'_> {
    async fn run(&mut self) -> Result<()> {
        self.ask("PUT", "/v1/node/pools", json!({ "Name": "gpu" })).await?.done()?;
        self.configure(&json!({})).await?.done()?;
        self.add_nodes(self.scenario.nodes.values().cloned().collect()).await?;
        for (number, step) in self.scenario.steps.iter().enumerate() {
            let about = format!("step {number} ({})", step["do"].as_str().unwrap_or_default());
            let before = self.differences.len();
            self.step(step).await.with_context(|| about.clone())?;
            self.differences[before..].iter_mut().for_each(|line| *line = format!("{about}: {line}"));
        }
        Ok(())
    }

    async fn step(&mut self, step: &Value) -> Result<()> {
        let answer = self.act(step).await?;
        if step["settle"] != false
            && let Err(why) = settled(self.stage, step).await
        {
            self.differences.push(format!("never settles: {why}"));
        }
        if step["record"] == false {
            return Ok(());
        }
        let labels = Labels::learn(self.stage, &self.classes).await?;
        let wanted = step["expect"].as_object().context("an expectation")?;
        let mut got = Map::new();
        if answer.status != 200 {
            let text = labels.text(answer.body.as_str().unwrap_or_default());
            got.insert("refused".into(), json!({ "status": answer.status, "text": text }));
        } else if let Some(warnings) = answer.body["Warnings"].as_str().filter(|text| !text.is_empty())
            && step["do"] != "plan"
        {
            got.insert("warnings".into(), json!(warnings));
        }
        if wanted.contains_key("state") {
            got.insert("state".into(), observe::state(self.stage, &labels, &wanted["state"]).await?);
        }
        if step["do"] == "plan" && answer.status == 200 {
            got.insert("plan".into(), observe::plan(&answer.body, &labels));
        }
        compare(&step["expect"], &Value::Object(got), "", &mut self.differences);
        Ok(())
    }

    async fn act(&mut self, step: &Value) -> Result<Answer> {
        let job = step["job"].as_str().unwrap_or_default();
        let node = step["node"].as_str().unwrap_or_default();
        match step["do"].as_str().unwrap_or_default() {
            "register" => self.ask("PUT", "/v1/jobs", json!({ "Job": step["job"] })).await,
            "plan" => {
                let path = format!("/v1/job/{}/plan", step["job"]["ID"].as_str().context("a job's ID")?);
                self.ask("PUT", &path, json!({ "Job": step["job"], "Diff": true })).await
            }
            "deregister" => self.ask("DELETE", &format!("/v1/job/{job}"), Value::Null).await,
            "scale" => {
                let body = json!({ "Count": step["count"], "Target": { "Group": step["group"] } });
                self.ask("PUT", &format!("/v1/job/{job}/scale"), body).await
            }
            "dispatch" => self.ask("PUT", &format!("/v1/job/{job}/dispatch"), json!({ "Meta": step["meta"] })).await,
            "force_periodic" => self.ask("PUT", &format!("/v1/job/{job}/periodic/force"), Value::Null).await,
            "evaluate" => {
                let options = json!({ "ForceReschedule": step["force"] == true });
                let body = json!({ "JobID": job, "EvalOptions": options });
                self.ask("PUT", &format!("/v1/job/{job}/evaluate"), body).await
            }
            "promote" => self.on_deployment(job, "promote", json!({ "All": true })).await,
            "fail_deployment" => self.on_deployment(job, "fail", json!({})).await,
            "stop_alloc" => {
                let labels = Labels::learn(self.stage, &self.classes).await?;
                let id = labels.alloc(step["alloc"].as_str().unwrap_or_default()).context("the allocation")?;
                self.ask("PUT", &format!("/v1/allocation/{id}/stop"), json!({})).await
            }
            "eligibility" => self.on_node(node, "eligibility", json!({ "Eligibility": step["set"] })).await,
            "drain" => self.drain(node, step).await,
            "add_node" => {
                let description = self.scenario.joining(node).context("a node to copy")?;
                self.add_nodes(vec![description]).await
            }
            "remove_node" => {
                self.stage.kill_node(node);
                self.on_node(node, "purge", json!({})).await
            }
            "config" => self.configure(&step["config"]).await,
            "sleep" => {
                tokio::time::sleep(Duration::from_secs_f64(step["seconds"].as_f64().unwrap_or_default())).await;
                Ok(Answer::default())
            }
            other => bail!("there is no step {other}"),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Answer> {
        ask(self.stage, method, path, body).await
    }

    async fn on_deployment(&self, job: &str, what: &str, mut body: Value) -> Result<Answer> {
        let newest = self.ask("GET", &format!("/v1/job/{job}/deployment"), Value::Null).await?.done()?;
        let id = newest["ID"].as_str().context("a deployment")?;
        body["DeploymentID"] = json!(id);
        self.ask("PUT", &format!("/v1/deployment/{what}/{id}"), body).await
    }

    async fn on_node(&self, name: &str, what: &str, mut body: Value) -> Result<Answer> {
        let id = self.stage.node(name).with_context(|| format!("there is no node {name}"))?;
        body["NodeID"] = json!(id);
        self.ask("PUT", &format!("/v1/node/{id}/{what}"), body).await
    }

    async fn drain(&self, node: &str, step: &Value) -> Result<Answer> {
        if step["on"] == false {
            return self.on_node(node, "drain", json!({ "DrainSpec": null, "MarkEligible": true })).await;
        }
        let deadline = if step["force"] == true { -1 } else { DRAIN_DEADLINE };
        let spec = json!({ "Deadline": deadline, "IgnoreSystemJobs": step["ignore_system"] == true });
        self.on_node(node, "drain", json!({ "DrainSpec": spec })).await
    }

    async fn add_nodes(&mut self, descriptions: Vec<Node>) -> Result<Answer> {
        let ids = self.stage.add_nodes(descriptions).await;
        let view = self.stage.view().context("the server is away")?;
        for id in ids {
            let node = view.node(id).context("the node is gone")?;
            self.classes.insert(node.computed_class.to_string(), json!(node.name));
        }
        Ok(Answer::default())
    }

    /// Sets the scheduler configuration of the start, with these changes.
    async fn configure(&self, changes: &Value) -> Result<Answer> {
        let mut config = json!({
            "SchedulerAlgorithm": "binpack",
            "MemoryOversubscriptionEnabled": false,
            "PauseEvalBroker": false,
            "RejectJobRegistration": false,
            "PreemptionConfig": { "SystemSchedulerEnabled": true, "SysBatchSchedulerEnabled": false,
                "BatchSchedulerEnabled": false, "ServiceSchedulerEnabled": false },
        });
        for (key, value) in changes.as_object().into_iter().flatten() {
            match value.as_object() {
                Some(inner) => inner.iter().for_each(|(name, value)| config[key][name] = value.clone()),
                None => config[key] = value.clone(),
            }
        }
        self.ask("PUT", "/v1/operator/scheduler/configuration", config).await
    }
}

/// An answer over HTTP. A body that is no JSON is a text.
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Default for Answer {
    fn default() -> Self {
        Self { status: 200, body: Value::Null }
    }
}

impl Answer {
    /// The body of an answer without an error.
    pub fn done(self) -> Result<Value> {
        match self.status {
            200 => Ok(self.body),
            status => bail!("{status}: {}", self.body),
        }
    }
}

/// Asks the cluster over HTTP.
pub async fn ask(stage: &Stage, method: &str, path: &str, body: Value) -> Result<Answer> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, bytes) = stage.ask(method, path, body).await.with_context(|| format!("{method} {path}: no answer"))?;
    let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
    Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()) })
}
