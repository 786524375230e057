//! A user of a simulated cluster: registers, changes, scales and stops jobs, drains nodes and makes them eligible
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_client::core::{Jitter, ServerList};
use songline_commands::{DeregisterJob, RegisterJob, UpdateEvals, UpdateNodeDrain, UpdateNodeEligibility};
use songline_model::{
    DrainStrategy, Dur, Eligibility, EphemeralDisk, EvalStatus, EvalTrigger, Evaluation, Job, JobKey, JobType, MigrateStrategy, NodeId,
    ReschedulePolicy, Resources, RestartPolicy, Str, Task, TaskGroup, Time, UpdateStrategy,
};
use songline_rpc::RpcError;

use super::agent::{Kind, Way};
use super::network::Network;
use super::record::Record;
use super::shell::{JOB_VERSIONS_MAX, Shell};

/// The user's place in the network, among the numbers of nodes.
const PLACE: usize = 1000;
/// Number of jobs.
const JOBS: u32 = 4;
/// Largest count of one job.
const COUNT_MAX: i64 = 5;

/// The user.
pub struct User {
    rng: SmallRng,
    way: Way,
    nodes: Vec<NodeId>,
    record: Arc<Record>,
    enough: Arc<AtomicBool>,
}

impl User {
    /// Creates a user who knows these nodes and servers.
    pub fn new(seed: u64, servers: Vec<Str>, nodes: Vec<NodeId>, network: &Arc<Network>, record: &Arc<Record>) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let list = ServerList::new(servers, Time::default(), Jitter::new(rng.random()));
        let way = Way::new(PLACE, list, rng.random(), network, record);
        Self { rng, way, nodes, record: Arc::clone(record), enough: Arc::default() }
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
            while self.ask("a node takes work again", move |shell| welcome(shell, node)).await.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    async fn ask<F, Fut>(&self, what: &str, ask: F) -> Result<(), RpcError>
    where
        F: Fn(Arc<Shell>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), RpcError>> + Send + 'static,
    {
        let answer = self.way.call(Kind::Write, ask).await;
        self.record.note(&format!("user: {what}: {answer:?}"));
        answer
    }

    async fn register(&mut self, number: u32) {
        let job = self.job(number);
        let count = job.task_groups.iter().flatten().map(|group| group.count).sum::<i64>();
        // The tables show whether the write took effect, so the result is ignored.
        let _ = self.ask(&format!("register j{number} with {count}"), move |shell| register(shell, job.clone())).await;
    }

    async fn scale(&mut self, number: u32) {
        let count = self.rng.random_range(1..=COUNT_MAX);
        let _ = self.ask(&format!("scale j{number} to {count}"), move |shell| scale(shell, number, count)).await;
    }

    async fn stop(&mut self, number: u32) {
        let purge = self.rng.random_bool(0.3);
        let _ = self.ask(&format!("stop j{number}, purge {purge}"), move |shell| stop(shell, number, purge)).await;
    }

    async fn drain(&mut self) {
        let node = self.nodes[self.rng.random_range(0..self.nodes.len())];
        let deadline = Dur::from_secs(self.rng.random_range(5..90));
        let _ = self.ask("drain a node", move |shell| drain(shell, node, deadline)).await;
    }

    async fn take_back(&mut self) {
        let node = self.nodes[self.rng.random_range(0..self.nodes.len())];
        let _ = self.ask("a node takes work again", move |shell| welcome(shell, node)).await;
    }

    fn job(&mut self, number: u32) -> Job {
        let rng = &mut self.rng;
        let delay = Dur::from_secs(rng.random_range(1..20));
        let task = Task {
            name: "t".into(),
            driver: "mock_driver".into(),
            env: Some([("E".into(), Str::from(rng.random_range(0..3).to_string()))].into()),
            resources: Some(Resources { cpu: 100, memory_mb: 100, ..Resources::default() }),
            kill_timeout: Dur::from_secs(rng.random_range(3..6)),
            ..Task::default()
        };
        // Deployments do not fail here: a failed one would leave a count that could not be checked.
        let update = UpdateStrategy {
            stagger: Dur::from_secs(30),
            max_parallel: rng.random_range(1..3),
            health_check: "task_states".into(),
            min_healthy_time: Dur::from_secs(rng.random_range(1..5)),
            healthy_deadline: Dur::from_hours(1),
            progress_deadline: Dur::from_hours(2),
            ..UpdateStrategy::default()
        };
        let group = TaskGroup {
            name: "g".into(),
            count: rng.random_range(1..=COUNT_MAX),
            tasks: Some(vec![task]),
            ephemeral_disk: Some(EphemeralDisk { size_mb: 10, ..EphemeralDisk::default() }),
            restart_policy: Some(RestartPolicy {
                attempts: rng.random_range(0..3),
                interval: Dur::from_mins(5),
                delay: Dur::from_secs(2),
                mode: "fail".into(),
                ..RestartPolicy::default()
            }),
            reschedule_policy: Some(ReschedulePolicy {
                unlimited: true,
                delay,
                max_delay: delay,
                delay_function: "constant".into(),
                ..ReschedulePolicy::default()
            }),
            migrate: Some(MigrateStrategy {
                max_parallel: 1,
                health_check: "task_states".into(),
                min_healthy_time: Dur::from_secs(2),
                healthy_deadline: Dur::from_mins(5),
            }),
            update: rng.random_bool(0.5).then_some(update),
            max_client_disconnect: rng.random_bool(0.6).then(|| Dur::from_secs(rng.random_range(10..120))),
            ..TaskGroup::default()
        };
        Job {
            id: name(number).into(),
            namespace: "default".into(),
            name: name(number),
            kind: JobType::Service,
            priority: rng.random_range(40..60),
            datacenters: Some(vec!["*".into()]),
            node_pool: "default".into(),
            task_groups: Some(vec![group]),
            ..Job::default()
        }
    }
}

fn name(number: u32) -> Str {
    Str::from(format!("j{number}"))
}

fn eval(shell: &Shell, job: &Job, trigger: EvalTrigger) -> Evaluation {
    let now = shell.now().nanos();
    Evaluation {
        id: shell.fresh(),
        namespace: job.namespace.clone(),
        priority: job.priority,
        kind: job.kind.clone(),
        triggered_by: trigger,
        job_id: job.id.clone(),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    }
}

async fn register(shell: Arc<Shell>, mut job: Job) -> Result<(), RpcError> {
    job.submit_time = shell.now().nanos();
    let eval = eval(&shell, &job, EvalTrigger::JobRegister);
    let view = shell.view();
    let written = match view.job("default", &job.id).filter(|row| !row.spec_changed(&job)) {
        Some(row) => {
            let evals = vec![Evaluation { job_modify_index: row.job_modify_index, ..eval }];
            shell.write_for_user(UpdateEvals { evals }).await
        }
        None => {
            let command = RegisterJob { job: Arc::new(job), eval: Some(eval), versions_max: JOB_VERSIONS_MAX, ..RegisterJob::default() };
            shell.write_for_user(command).await
        }
    };
    Ok(written.map(drop)?)
}

async fn scale(shell: Arc<Shell>, number: u32, count: i64) -> Result<(), RpcError> {
    let view = shell.view();
    let Some(job) = view.job("default", &name(number)).filter(|job| !job.stop) else { return Ok(()) };
    let mut scaled = Job::clone(job);
    for group in scaled.task_groups.iter_mut().flatten() {
        group.count = count;
    }
    let command = RegisterJob {
        eval: Some(eval(&shell, job, EvalTrigger::JobScaling)),
        job: Arc::new(scaled),
        enforce_index: true,
        job_modify_index: job.job_modify_index,
        versions_max: JOB_VERSIONS_MAX,
        ..RegisterJob::default()
    };
    Ok(shell.write_for_user(command).await.map(drop)?)
}

async fn stop(shell: Arc<Shell>, number: u32, purge: bool) -> Result<(), RpcError> {
    let view = shell.view();
    let Some(job) = view.job("default", &name(number)) else { return Ok(()) };
    let command = DeregisterJob {
        job: JobKey { namespace: job.namespace.clone(), id: job.id.clone() },
        purge,
        submit_time: shell.now().nanos(),
        eval: Some(eval(&shell, job, EvalTrigger::JobDeregister)),
        versions_max: JOB_VERSIONS_MAX,
        ..DeregisterJob::default()
    };
    Ok(shell.write_for_user(command).await.map(drop)?)
}

async fn drain(shell: Arc<Shell>, node: NodeId, deadline: Dur) -> Result<(), RpcError> {
    let now = shell.now();
    let strategy = DrainStrategy { deadline, ignore_system_jobs: false, force_deadline: Some(now.plus(deadline)), started_at: Some(now) };
    let command = UpdateNodeDrain { node_id: node, drain_strategy: Some(strategy), updated_at: now.secs(), ..UpdateNodeDrain::default() };
    Ok(shell.write_for_user(command).await.map(drop)?)
}

/// Ends a node's drain and makes it eligible, unless it is.
async fn welcome(shell: Arc<Shell>, node: NodeId) -> Result<(), RpcError> {
    let view = shell.view();
    let Some(row) = view.node(node) else { return Ok(()) };
    let (now, draining) = (shell.now(), row.drain_strategy.is_some());
    let ineligible = row.scheduling_eligibility == Eligibility::Ineligible;
    let written = match (draining, ineligible) {
        (true, _) => {
            let command = UpdateNodeDrain { node_id: node, mark_eligible: true, updated_at: now.secs(), ..UpdateNodeDrain::default() };
            shell.write_for_user(command).await
        }
        (false, true) => {
            let command = UpdateNodeEligibility {
                node_id: node,
                eligibility: Eligibility::Eligible,
                updated_at: now.secs(),
                ..UpdateNodeEligibility::default()
            };
            shell.write_for_user(command).await
        }
        (false, false) => return Ok(()),
    };
    let index = written?;
    Ok(shell.look_at_node(node, index).await?)
}
