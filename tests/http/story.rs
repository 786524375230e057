//! Support of the tests: one agent, calls that must succeed, and waiting for a state by blocking queries. Not here:
//! any test.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::agent::{Agent, Setup};
use crate::http::{self, Answer, Connection, Request};

/// Timeout of every wait. A debug build on a busy machine is slow.
pub const WITHIN: Duration = Duration::from_secs(60);

pub struct Story {
    pub agent: Agent,
}

impl Story {
    /// Starts a `-dev` agent.
    pub fn begin() -> Result<Story> {
        Ok(Story { agent: Agent::start(&Setup::dev())? })
    }

    pub fn http(&self) -> SocketAddr {
        self.agent.http
    }

    /// Sends a request; any status is accepted.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        Ok(http::call(self.http(), request, Instant::now() + WITHIN)?)
    }

    pub fn call(&self, request: &Request) -> Result<Answer> {
        let answer = self.ask(request)?;
        ensure!(
            answer.head.status == 200,
            "{} {}: {} {}",
            request.method,
            request.target,
            answer.head.status,
            answer.text()
        );
        Ok(answer)
    }

    pub fn get(&self, target: &str) -> Result<Value> {
        let answer = self.call(&Request::new("GET", target))?;
        answer.json().with_context(|| format!("GET {target}"))
    }

    pub fn put(&self, target: &str, body: &Value) -> Result<Value> {
        let answer = self.call(&Request::new("PUT", target).json(body))?;
        // Some writes have an empty answer.
        if answer.body.is_empty() { Ok(Value::Null) } else { answer.json().with_context(|| format!("PUT {target}")) }
    }

    /// Waits until the answer of `target` satisfies a condition, by blocking queries.
    pub fn wait(&self, target: &str, good: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = Instant::now() + WITHIN;
        let joint = if target.contains('?') { '&' } else { '?' };
        let (mut index, mut last) = (0, Value::Null);
        while Instant::now() < deadline {
            let blocking = format!("{target}{joint}index={index}&wait=2s");
            let answer = self.call(&Request::new("GET", &blocking))?;
            index = answer.index().context("a blocking query tells its index")?;
            last = answer.json().with_context(|| format!("GET {target}"))?;
            if good(&last) {
                return Ok(last);
            }
        }
        bail!("{target} did not become as awaited; it is {last}")
    }

    /// Waits until the job has `count` running allocs of version `version` and no others, and returns them.
    pub fn wait_for_running(&self, job: &str, count: usize, version: u64) -> Result<Vec<Value>> {
        let target = format!("/v1/job/{job}/allocations");
        let running = |list: &Value| -> Vec<Value> {
            let allocs = list.as_array().into_iter().flatten();
            allocs.filter(|alloc| alloc["ClientStatus"] == "running").cloned().collect()
        };
        let list = self.wait(&target, |list| {
            let allocs = running(list);
            allocs.len() == count && allocs.iter().all(|a| a["JobVersion"] == version)
        })?;
        Ok(running(&list))
    }

    /// Subscribes to the event stream; `accept` is the media type.
    pub fn subscribe(&self, query: &str, accept: &str) -> Result<Connection> {
        let deadline = Instant::now() + WITHIN;
        let mut connection = Connection::open(self.http(), deadline)?;
        let request = Request::new("GET", &format!("/v1/event/stream?{query}"));
        let head = connection.send(&request.header("Accept", accept), deadline)?;
        ensure!(head.status == 200, "the stream: {}", head.status);
        Ok(connection)
    }
}

/// A text field of each item of a list.
pub fn texts<'v>(list: &'v Value, field: &str) -> Vec<&'v str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item[field].as_str()).collect()
}
