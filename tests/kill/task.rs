//! A real task that keeps running through all the kills: its process is the same one from the first round to the
//! last. Not here: the agent's recovery of the task.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::http::{self, Request};
use crate::process::{self, Process};
use crate::{WITHIN, get};

const JOB: &str = "kill-task";

/// A job of one task, and the process that was found for it at first.
pub struct Task {
    process: Process,
    /// An argument that no other process has.
    marker: String,
}

impl Task {
    /// Registers the job and waits until it runs.
    pub fn start(http: SocketAddr, seed: u64) -> Result<Task> {
        // `sleep` adds its arguments up, so a fraction of a second distinguishes this process from all others.
        let marker = format!("0.{:010}{:010}", std::process::id(), seed % 10_000_000_000);
        let job = json!({"Job": {
            "ID": JOB,
            "Name": JOB,
            "Type": "service",
            "Datacenters": ["*"],
            "TaskGroups": [{
                "Name": "group",
                "Count": 1,
                "Tasks": [{
                    "Name": "sleeper",
                    "Driver": "raw_exec",
                    "Config": {"command": "/bin/sleep", "args": ["86400", marker]},
                    "Resources": {"CPU": 20, "MemoryMB": 16},
                }],
            }],
        }});
        let request = Request::new("PUT", "/v1/jobs").json(&job);
        let answer = http::call(http, &request, Instant::now() + WITHIN)?;
        ensure!(answer.head.status == 200, "registering the task: {} {}", answer.head.status, answer.text());
        wait_until_running(http)?;
        let found = process::running("sleep", &marker);
        let [process] = found.as_slice() else {
            bail!("the task runs as {found:?}");
        };
        Ok(Task { process: process.clone(), marker })
    }

    /// Checks that the agent reports the one alloc as running and never restarted, and that its process is the first
    /// one and the only one.
    pub fn check(&self, http: SocketAddr) -> Result<()> {
        wait_until_running(http)?;
        let (_, allocs) = get(http, &format!("/v1/job/{JOB}/allocations"))?;
        let allocs = allocs.as_array().context("a list of allocs")?;
        ensure!(allocs.len() == 1, "{} allocs", allocs.len());
        let restarts = &allocs[0]["TaskStates"]["sleeper"]["Restarts"];
        ensure!(*restarts == 0, "the task was restarted {restarts} times");
        let found = process::running("sleep", &self.marker);
        ensure!(
            found.as_slice() == std::slice::from_ref(&self.process),
            "the task ran as {:?} and runs as {found:?}",
            self.process
        );
        Ok(())
    }

    /// Stops the job and waits for the end of its process.
    pub fn stop(&self, http: SocketAddr) -> Result<()> {
        let request = Request::new("DELETE", &format!("/v1/job/{JOB}"));
        let answer = http::call(http, &request, Instant::now() + WITHIN)?;
        ensure!(answer.head.status == 200, "stopping: {}", answer.text());
        ensure!(self.process.ends_before(Instant::now() + WITHIN), "the job was stopped and its process runs on");
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        for process in process::running("sleep", &self.marker) {
            process.kill();
        }
    }
}

fn wait_until_running(http: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    let mut index = 0;
    let mut last = String::new();
    while Instant::now() < deadline {
        let target = format!("/v1/job/{JOB}/allocations?index={index}&wait=2s");
        let (at, allocs) = get(http, &target)?;
        let mut states = allocs.as_array().into_iter().flatten();
        if states.any(|alloc| alloc["ClientStatus"] == "running") {
            return Ok(());
        }
        index = at;
        last = allocs.to_string();
    }
    bail!("the task did not run within {} s: {last}", WITHIN.as_secs())
}
