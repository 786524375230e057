//! Deliberate differences from the reference: one test for each line of `deliberate.txt` and `defects.txt` that needs
//! a node. The test has the name of the line's case and shows that the line is true. Tests that need no node are in
//! `api/tests/it/deliberate`.

mod artifacts;
mod files;
mod isolation;
mod listed;
mod tasks;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::fleet;
use crate::http::{self, Request};

/// Timeout of every wait of a test.
const WITHIN: Duration = Duration::from_secs(60);

/// An agent, and requests to it.
struct World {
    agent: Agent,
}

impl World {
    fn start(acl: bool) -> Result<World> {
        Ok(World { agent: fleet::agent(acl)? })
    }

    /// Sends a request. Returns the status, the index and the body, which is a string if it is not JSON.
    fn ask(&self, token: &str, line: &str, body: Value) -> Result<(u16, Option<u64>, Value)> {
        let (method, target) = line.split_once(' ').context("a method and a target")?;
        let mut request = Request::new(method, target).header("X-Nomad-Token", token);
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = http::call(self.agent.http, &request, Instant::now() + WITHIN)?;
        let said = answer.json().unwrap_or_else(|_| Value::String(answer.text()));
        Ok((answer.head.status, answer.index(), said))
    }

    /// Sends a request with the management token. A refusal is an error.
    fn done(&self, line: &str, body: Value) -> Result<Value> {
        let (status, _, said) = self.ask(fleet::TOKEN, line, body)?;
        ensure!((200..300).contains(&status), "{line}: {status} {said}");
        Ok(said)
    }

    /// Reads with blocking queries until `wanted` finds a value.
    fn until<T>(&self, target: &str, wanted: impl Fn(&Value) -> Option<T>) -> Result<T> {
        let (deadline, mut index) = (Instant::now() + WITHIN, 0);
        let and = if target.contains('?') { '&' } else { '?' };
        loop {
            let (status, at, said) =
                self.ask(fleet::TOKEN, &format!("GET {target}{and}index={index}&wait=1s"), Value::Null)?;
            ensure!(status == 200, "{target}: {status} {said}");
            if let Some(found) = wanted(&said) {
                return Ok(found);
            }
            if Instant::now() > deadline {
                bail!("{target} never came to what was waited for, but to {said}");
            }
            index = at.context("a read that waits has an index")?;
        }
    }

    /// Registers a job with one task, and returns the id of its evaluation.
    fn run(&self, id: &str, kind: &str, group: Value, task: Value) -> Result<String> {
        let mut group = group;
        group["Name"] = json!("g");
        let mut task = task;
        task["Name"] = json!("t");
        group["Tasks"] = json!([task]);
        let said = self.done("PUT /v1/jobs", json!({"Job": {"ID": id, "Type": kind, "TaskGroups": [group]}}))?;
        Ok(said["EvalID"].as_str().context("a registration has an evaluation")?.to_owned())
    }

    /// Waits until the only allocation of a job has this status. Returns its id.
    fn alloc(&self, job: &str, status: &str) -> Result<String> {
        self.until(&format!("/v1/job/{job}/allocations"), |allocs| {
            let alloc = allocs.get(0).filter(|alloc| alloc["ClientStatus"] == status)?;
            Some(alloc["ID"].as_str()?.to_owned())
        })
    }
}

/// A task that runs a script.
fn script(text: &str) -> Value {
    json!({"Driver": "raw_exec", "Config": {"command": "/bin/sh", "args": ["-c", text]}})
}
