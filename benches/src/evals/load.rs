//! Very many evaluations of some jobs, as the commands that write them.

use std::sync::Arc;

use songline::Proposal;
use songline::commands::{Actor, Command, RegisterJob, SetSchedulerConfig, UpdateEvals};
use songline::model::{
    EvalId, EvalStatus, EvalTrigger, Evaluation, Job, JobType, NodeId, SchedulerConfiguration, Str, Task, TaskGroup,
    Time,
};
use songline_server::Core;

/// Generator of the next evaluations.
pub struct Load {
    jobs: usize,
    made: u64,
}

/// A proposal of an anonymous actor.
pub fn proposal(command: Command) -> Proposal {
    Proposal { actor: Actor::Leader("load".into()), cause: None, idempotency: None, command }
}

/// Pauses the broker, registers the jobs and writes `evals` evaluations of them.
pub async fn write_evals(server: &Core, jobs: usize, evals: usize) -> anyhow::Result<()> {
    let mut load = Load::new(jobs);
    for command in load.prepare() {
        server.write(proposal(command)).await?;
    }
    let mut left = evals;
    while left > 0 {
        let count = left.min(1_000);
        server.write(proposal(load.evals(count))).await?;
        left -= count;
    }
    Ok(())
}

impl Load {
    /// Creates a generator for this number of jobs.
    pub fn new(jobs: usize) -> Self {
        Self { jobs: jobs.max(1), made: 0 }
    }

    /// Commands that pause the broker and register the jobs.
    pub fn prepare(&self) -> Vec<Command> {
        let config = SchedulerConfiguration { pause_eval_broker: true, ..SchedulerConfiguration::default() };
        let pause = SetSchedulerConfig { config, cas: None }.into();
        let register = |n| RegisterJob { job: job(n), versions_max: 6, ..RegisterJob::default() }.into();
        std::iter::once(pause).chain((0..self.jobs).map(register)).collect()
    }

    /// The next `count` evaluations: nine of ten are pending and of priority 50.
    pub fn evals(&mut self, count: usize) -> Command {
        let evals = (0..count).map(|_| self.eval()).collect();
        UpdateEvals { evals }.into()
    }

    /// The next evaluation, with the fields that those of a real cluster have: indexes, times, origin, allocations
    /// still to be placed.
    fn eval(&mut self) -> Evaluation {
        let n = self.made;
        self.made += 1;
        let matches = !n.is_multiple_of(10);
        let now = 1_700_000_000_000_000_000 + n.cast_signed() * 1_000_000;
        Evaluation {
            id: EvalId::from_bytes(spread(n)),
            namespace: "default".into(),
            priority: if matches { 50 } else { 70 },
            kind: JobType::Batch,
            triggered_by: EvalTrigger::NodeUpdate,
            job_id: job_id(n as usize % self.jobs).into(),
            job_modify_index: 1000 + n % 1000,
            node_id: Some(NodeId::from_bytes(spread(n % 5000))),
            node_modify_index: 2000 + n % 1000,
            status: if matches { EvalStatus::Pending } else { EvalStatus::Complete },
            queued_allocations: Some(Arc::new([(Str::new("group"), 0)].into())),
            snapshot_index: 3000 + n,
            create_time: Time::from_nanos(now),
            modify_time: Time::from_nanos(now + 1_000_000),
            ..Evaluation::default()
        }
    }
}

fn job_id(n: usize) -> String {
    format!("some-batch-job-{n:05}")
}

fn job(n: usize) -> Arc<Job> {
    let task = Task { name: "task".into(), driver: "mock_driver".into(), ..Task::default() };
    let group = TaskGroup { name: "group".into(), count: 1, tasks: Some(vec![task]), ..TaskGroup::default() };
    let id = job_id(n);
    Arc::new(Job {
        id: id.as_str().into(),
        namespace: "default".into(),
        name: id.into(),
        kind: JobType::Batch,
        task_groups: Some(vec![group]),
        ..Job::default()
    })
}

/// 16 bytes that are distributed as in random ids.
pub fn spread(n: u64) -> [u8; 16] {
    let mix = |seed: u64| {
        let mut z = n.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 27)
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mix(1).to_be_bytes());
    bytes[8..].copy_from_slice(&mix(7).to_be_bytes());
    bytes
}
