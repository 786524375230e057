//! A user of a simulated cluster: registers, changes, scales and stops jobs, drains nodes and makes them eligible
//! again, over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use songline_model::{Dur, NodeId};

use super::http;
use super::network::Network;
use super::record::Record;
use super::server::Host;

/// Number of jobs.
const JOBS: u32 = 4;
/// Largest count of one job.
const COUNT_MAX: i64 = 5;
/// Number of attempts before the user gives an operation up.
const ATTEMPTS_MAX: u32 = 8;

/// The user.
pub struct User {
    rng: SmallRng,
    hosts: Vec<Arc<Host>>,
    network: Arc<Network>,
    nodes: Vec<NodeId>,
    record: Arc<Record>,
    enough: Arc<AtomicBool>,
}

impl User {
    /// Creates a user who knows these nodes and the machines of servers.
    pub fn new(
        seed: u64,
        hosts: &[Arc<Host>],
        nodes: Vec<NodeId>,
        network: &Arc<Network>,
        record: &Arc<Record>,
    ) -> Self {
        let (rng, hosts) = (SmallRng::seed_from_u64(seed), hosts.to_vec());
        Self { rng, hosts, network: Arc::clone(network), nodes, record: Arc::clone(record), enough: Arc::default() }
    }

    /// Flag that, once set, makes the user begin no further operation.
    pub fn enough(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.enough)
    }

    /// Performs one operation after another until the flag is set. Then makes all nodes eligible again.
    pub async fn run(mut self) {
        let mut registered = 0;
        while !self.enough.load(Ordering::Relaxed) {
            let pause = self.rng.random_range(500..12_000);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            if registered < JOBS {
                self.register(registered).await;
                registered += 1;
                continue;
            }
            let number = self.rng.random_range(0..JOBS);
            match self.rng.random_range(0..20) {
                0..8 => self.register(number).await,
                8..13 => self.scale(number).await,
                13..15 => self.stop(number).await,
                15..17 => self.drain().await,
                _ => self.take_back().await,
            }
        }
        for node in self.nodes.clone() {
            while !self.welcome(node).await {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Asks any server until one answers. Returns whether the answer is that it was done, or that there is no such
    /// object.
    async fn ask(&mut self, what: &str, method: &str, path: &str, body: Value) -> bool {
        let mut answer = None;
        for _ in 0..ATTEMPTS_MAX {
            let host = Arc::clone(&self.hosts[self.rng.random_range(0..self.hosts.len())]);
            answer = http::ask(&self.network, &host, method, path, body.to_string()).await;
            if answer.as_ref().is_some_and(|(status, _)| *status < 500) {
                break;
            }
            let pause = self.rng.random_range(100..1500);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        let told = answer
            .as_ref()
            .map_or_else(|| "no answer".to_owned(), |(status, body)| format!("{status} {}", shown(*status, body)));
        self.record.note(&format!("user: {what}: {told}"));
        answer.is_some_and(|(status, _)| status == 200 || status == 404)
    }

    async fn register(&mut self, number: u32) {
        let job = self.job(number);
        let count = job["TaskGroups"][0]["Count"].clone();
        // The tables show whether the write took effect, so the result is ignored.
        self.ask(&format!("register j{number} with {count}"), "PUT", "/v1/jobs", json!({ "Job": job })).await;
    }

    async fn scale(&mut self, number: u32) {
        let count = self.rng.random_range(1..=COUNT_MAX);
        let body = json!({ "Count": count, "Target": { "Group": "g" } });
        self.ask(&format!("scale j{number} to {count}"), "PUT", &format!("/v1/job/j{number}/scale"), body).await;
    }

    async fn stop(&mut self, number: u32) {
        let purge = self.rng.random_bool(0.3);
        let path = format!("/v1/job/j{number}?purge={purge}");
        self.ask(&format!("stop j{number}, purge {purge}"), "DELETE", &path, Value::Null).await;
    }

    async fn drain(&mut self) {
        let node = self.nodes[self.rng.random_range(0..self.nodes.len())];
        let deadline = Dur::from_secs(self.rng.random_range(5..90));
        let body = json!({ "DrainSpec": { "Deadline": deadline.nanos(), "IgnoreSystemJobs": false } });
        self.ask("drain a node", "PUT", &format!("/v1/node/{node}/drain"), body).await;
    }

    async fn take_back(&mut self) {
        let node = self.nodes[self.rng.random_range(0..self.nodes.len())];
        self.welcome(node).await;
    }

    /// Ends a node's drain and makes it eligible. Returns whether that was answered.
    async fn welcome(&mut self, node: NodeId) -> bool {
        let body = json!({ "DrainSpec": null, "MarkEligible": true });
        if !self.ask("a node's drain ends", "PUT", &format!("/v1/node/{node}/drain"), body).await {
            return false;
        }
        let body = json!({ "Eligibility": "eligible" });
        self.ask("a node takes work again", "PUT", &format!("/v1/node/{node}/eligibility"), body).await
    }

    fn job(&mut self, number: u32) -> Value {
        const SECOND: i64 = 1_000_000_000;
        let rng = &mut self.rng;
        let delay = rng.random_range(5..20) * SECOND;
        // Deployments do not fail here: a failed one would leave a count that could not be checked.
        let update = json!({
            "Stagger": 30 * SECOND,
            "MaxParallel": rng.random_range(1..3),
            "HealthCheck": "task_states",
            "MinHealthyTime": rng.random_range(1..5) * SECOND,
            "HealthyDeadline": 3600 * SECOND,
            "ProgressDeadline": 7200 * SECOND,
        });
        let none = json!({ "MaxParallel": 0, "Stagger": 30 * SECOND, "HealthCheck": "task_states", "MinHealthyTime": 0,
            "HealthyDeadline": SECOND, "ProgressDeadline": 0 });
        json!({
            "ID": format!("j{number}"),
            "Name": format!("j{number}"),
            "Type": "service",
            "Priority": rng.random_range(40..60),
            "Datacenters": ["*"],
            "TaskGroups": [{
                "Name": "g",
                "Count": rng.random_range(1..=COUNT_MAX),
                "EphemeralDisk": { "SizeMB": 110 },
                "RestartPolicy": {
                    "Attempts": rng.random_range(0..3),
                    "Interval": 300 * SECOND,
                    "Delay": 2 * SECOND,
                    "Mode": "fail",
                },
                "ReschedulePolicy": { "Unlimited": true, "Delay": delay, "MaxDelay": delay, "DelayFunction": "constant" },
                "Migrate": {
                    "MaxParallel": 1,
                    "HealthCheck": "task_states",
                    "MinHealthyTime": 2 * SECOND,
                    "HealthyDeadline": 300 * SECOND,
                },
                "Update": if rng.random_bool(0.5) { update } else { none },
                "MaxClientDisconnect": rng.random_bool(0.6).then(|| rng.random_range(10..120) * SECOND),
                "Tasks": [{
                    "Name": "t",
                    "Driver": "mock_driver",
                    "Env": { "E": rng.random_range(0..3).to_string() },
                    "Resources": { "CPU": 100, "MemoryMB": 100 },
                    "KillTimeout": rng.random_range(3..6) * SECOND,
                    "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 10 },
                }],
            }],
        })
    }
}

/// The body of a refusal; nothing of an answer.
fn shown(status: u16, body: &[u8]) -> String {
    if status == 200 { String::new() } else { String::from_utf8_lossy(body).into_owned() }
}
