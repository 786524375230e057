//! A user of a simulated cluster: registers, changes, scales and stops jobs, dispatches and promotes them, drains nodes
//! and makes them eligible again, over HTTP. The jobs themselves are in `workloads`.

mod workloads;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use songline_model::{Dur, NodeId};

use super::callers::MANAGEMENT;
use super::http::{self, Answer};
use super::network::Network;
use super::record::{Record, Violation};
use super::server::Host;
pub use workloads::FAST_CLASS;
use workloads::{COUNT_MAX, GREEDY, WORKLOADS, Work, Workload};

/// Number of attempts before the user gives an operation up.
const ATTEMPTS_MAX: u32 = 8;
/// Interval at which canaries are promoted when all else is done.
const PROMOTE_EVERY: Duration = Duration::from_secs(3);
/// Share of the clusters that are always full.
const GREEDY_CLUSTERS: f64 = 0.5;

/// The user.
pub struct User {
    rng: SmallRng,
    hosts: Vec<Arc<Host>>,
    network: Arc<Network>,
    nodes: Vec<NodeId>,
    record: Arc<Record>,
    jobs: Vec<Workload>,
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
        let (mut rng, hosts) = (SmallRng::seed_from_u64(seed), hosts.to_vec());
        let mut jobs = WORKLOADS.to_vec();
        if rng.random_bool(GREEDY_CLUSTERS) {
            jobs.push(GREEDY);
        }
        let (network, record) = (Arc::clone(network), Arc::clone(record));
        Self { rng, hosts, network, nodes, record, jobs, enough: Arc::default() }
    }

    /// Flag that, once set, makes the user begin no further operation.
    pub fn enough(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.enough)
    }

    /// Performs one operation after another until the flag is set. Then brings jobs and nodes into a state whose end
    /// is known.
    pub async fn run(mut self) {
        while !self.bootstrap().await {
            self.pause(1000).await;
        }
        while !self.configure().await {
            self.pause(1000).await;
        }
        let mut new = self.jobs.clone();
        while !self.enough.load(Ordering::Relaxed) {
            if !new.is_empty() {
                self.pause(1500).await;
                let next = new.swap_remove(self.rng.random_range(0..new.len()));
                self.register(next, true).await;
                continue;
            }
            self.pause(12_000).await;
            let job = self.jobs[self.rng.random_range(0..self.jobs.len())];
            match self.rng.random_range(0..30) {
                0..8 => drop(self.register(job, false).await),
                8..13 if job.scales() => self.scale(job).await,
                13..15 => drop(self.stop(job.id).await),
                15..17 => self.drain().await,
                17..20 => self.dispatch().await,
                20..25 => self.promote_some().await,
                _ => self.take_back().await,
            }
        }
        self.settle().await;
    }

    /// Leaves no job that launches children, fails or waits for a user, and no node that takes no work.
    async fn settle(&mut self) {
        for job in self.jobs.clone() {
            match job.work {
                Work::Periodic => while !self.stop(job.id).await {},
                Work::Canary => while !self.register(job, true).await {},
                Work::Service
                | Work::Device
                | Work::Batch
                | Work::Greedy
                | Work::System
                | Work::SysBatch
                | Work::Parameterized => {}
            }
        }
        for node in self.nodes.clone() {
            while !self.welcome(node).await {
                self.pause(1000).await;
            }
        }
    }

    /// Promotes canaries until the flag is set, which is after all other operations: a deployment with canaries that
    /// nobody promotes does not end.
    pub async fn promote(mut self) {
        while !self.enough.load(Ordering::Relaxed) {
            tokio::time::sleep(PROMOTE_EVERY).await;
            self.promote_some().await;
        }
    }

    async fn pause(&mut self, most_ms: u64) {
        let pause = self.rng.random_range(most_ms / 20..most_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Creates the management token. Returns whether there is one now: a second attempt is refused.
    async fn bootstrap(&mut self) -> bool {
        let body = json!({ "BootstrapSecret": MANAGEMENT });
        let answer = self.answer("bootstrap ACLs", "PUT", "/v1/acl/bootstrap", body).await;
        answer.is_some_and(|(status, _)| status == 200 || status == 400)
    }

    /// Sets the scheduler configuration, once: a job that waits would not learn of a change.
    async fn configure(&mut self) -> bool {
        let mut chance = || self.rng.random_bool(0.6);
        let preemption = json!({
            "SystemSchedulerEnabled": chance(),
            "SysBatchSchedulerEnabled": chance(),
            "BatchSchedulerEnabled": chance(),
            "ServiceSchedulerEnabled": chance(),
        });
        let algorithm = if self.rng.random_bool(0.3) { "spread" } else { "binpack" };
        let body = json!({ "SchedulerAlgorithm": algorithm, "PreemptionConfig": preemption });
        self.ask("configure the scheduler", "PUT", "/v1/operator/scheduler/configuration", body).await
    }

    /// Asks any server until one answers. Returns whether the answer is that it was done, or that there is no such
    /// object.
    async fn ask(&mut self, what: &str, method: &str, path: &str, body: Value) -> bool {
        self.answer(what, method, path, body).await.is_some_and(|(status, _)| status == 200 || status == 404)
    }

    async fn answer(&mut self, what: &str, method: &str, path: &str, body: Value) -> Option<Answer> {
        let mut answer = None;
        for _ in 0..ATTEMPTS_MAX {
            let host = Arc::clone(&self.hosts[self.rng.random_range(0..self.hosts.len())]);
            answer = http::ask(&self.network, &host, Some(MANAGEMENT), (method, path), body.to_string()).await;
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
        answer
    }

    /// Registers a job. The tables show whether the write took effect.
    async fn register(&mut self, job: Workload, sound: bool) -> bool {
        let body = job.registration(&mut self.rng, sound);
        let what = format!("register {} with {}", job.id, body["TaskGroups"][0]["Count"]);
        let Some((status, answer)) = self.answer(&what, "PUT", "/v1/jobs", json!({ "Job": body })).await else {
            return false;
        };
        if status == 400 {
            let why = format!("the registration of {} is refused: {}", job.id, String::from_utf8_lossy(&answer));
            self.record.found(Violation::Stuck(why));
        }
        status == 200
    }

    async fn scale(&mut self, job: Workload) {
        let (id, count) = (job.id, self.rng.random_range(1..=COUNT_MAX));
        let body = json!({ "Count": count, "Target": { "Group": "g" } });
        self.ask(&format!("scale {id} to {count}"), "PUT", &format!("/v1/job/{id}/scale"), body).await;
    }

    async fn stop(&mut self, id: &str) -> bool {
        let purge = self.rng.random_bool(0.3);
        let path = format!("/v1/job/{id}?purge={purge}");
        self.ask(&format!("stop {id}, purge {purge}"), "DELETE", &path, Value::Null).await
    }

    async fn dispatch(&mut self) {
        let body = json!({ "Meta": { "m": self.rng.random_range(0..9).to_string() } });
        self.ask("dispatch d0", "PUT", "/v1/job/d0/dispatch", body).await;
    }

    /// Promotes the canaries of all deployments that wait for it. Refused while they are not healthy.
    async fn promote_some(&mut self) {
        let list = self.answer("list deployments", "GET", "/v1/deployments", Value::Null).await;
        let list: Vec<Value> = list.and_then(|(_, body)| serde_json::from_slice(&body).ok()).unwrap_or_default();
        for deployment in list.iter().filter(|deployment| waits_for_promotion(deployment)) {
            let id = deployment["ID"].as_str().unwrap_or_default();
            let path = format!("/v1/deployment/promote/{id}");
            let what = format!("promote {}", deployment["JobID"].as_str().unwrap_or_default());
            self.ask(&what, "PUT", &path, json!({ "DeploymentID": id, "All": true })).await;
        }
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
}

/// Whether a deployment is active and has canaries that are not promoted.
fn waits_for_promotion(deployment: &Value) -> bool {
    let groups = deployment["TaskGroups"].as_object().into_iter().flat_map(|groups| groups.values());
    let mut waiting = groups.filter(|group| group["DesiredCanaries"] != 0 && group["Promoted"] == false);
    deployment["Status"] == "running" && waiting.next().is_some()
}

/// The body of a refusal; nothing of an answer.
fn shown(status: u16, body: &[u8]) -> String {
    if status == 200 { String::new() } else { String::from_utf8_lossy(body).into_owned() }
}
