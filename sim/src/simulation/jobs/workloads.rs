//! The jobs of a simulated cluster's user: one of each type, with everything about a registration that the seed
//! decides.

use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;
/// Largest count of one job.
pub const COUNT_MAX: i64 = 5;
/// Class of the nodes that have devices.
pub const FAST_CLASS: &str = "fast";
/// Launch times of periodic jobs.
const CRONS: [&str; 3] = ["*/10 * * * * * *", "*/20 * * * * * *", "7-59/15 * * * * * *"];

/// Type of a job of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Services, whose deployments do not fail.
    Service,
    /// Services whose deployments have canaries, and fail now and then.
    Canary,
    /// Services that need devices and cores, which some nodes have.
    Device,
    /// Tasks that end, large ones of low priority, which give way to others.
    Batch,
    /// As many large tasks as no cluster has room for.
    Greedy,
    /// One allocation on each node.
    System,
    /// Tasks that end, once on each node.
    SysBatch,
    /// Tasks that end, at fixed times.
    Periodic,
    /// Tasks that end, whenever somebody dispatches them.
    Parameterized,
}

/// One job of the user.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Id of the job.
    pub id: &'static str,
    /// Its type.
    pub work: Work,
    /// Priority, which stays the same: a lowered priority would not wake the jobs that may preempt this one from then
    /// on.
    priority: i64,
}

/// Jobs of clusters that have room for all of them.
pub const WORKLOADS: &[Workload] = &[
    Workload { id: "j0", work: Work::Service, priority: 40 },
    Workload { id: "j1", work: Work::Service, priority: 50 },
    Workload { id: "j2", work: Work::Service, priority: 60 },
    Workload { id: "c0", work: Work::Canary, priority: 55 },
    Workload { id: "c1", work: Work::Canary, priority: 45 },
    Workload { id: "g0", work: Work::Device, priority: 65 },
    Workload { id: "b0", work: Work::Batch, priority: 20 },
    Workload { id: "b1", work: Work::Batch, priority: 30 },
    Workload { id: "s0", work: Work::System, priority: 75 },
    Workload { id: "n0", work: Work::SysBatch, priority: 35 },
    Workload { id: "p0", work: Work::Periodic, priority: 50 },
    Workload { id: "p1", work: Work::Periodic, priority: 25 },
    Workload { id: "d0", work: Work::Parameterized, priority: 50 },
];

/// One more job, which keeps a cluster full.
pub const GREEDY: Workload = Workload { id: "w0", work: Work::Greedy, priority: 15 };

impl Workload {
    /// A registration of the job. `sound`: one whose deployment does not fail.
    pub fn registration(&self, rng: &mut SmallRng, sound: bool) -> Value {
        let mut job = json!({
            "ID": self.id,
            "Name": self.id,
            "Type": self.kind(),
            "Priority": self.priority,
            "Datacenters": ["*"],
            "TaskGroups": [self.group(rng, sound)],
        });
        match self.work {
            Work::Service => scatter(&mut job, rng),
            Work::Device => job["Constraints"] = is_fast(),
            Work::System | Work::SysBatch if rng.random_bool(0.3) => job["Constraints"] = is_fast(),
            Work::Periodic => {
                job["Periodic"] = json!({
                    "Enabled": true,
                    "SpecType": "cron",
                    "Spec": CRONS[rng.random_range(0..CRONS.len())],
                    "ProhibitOverlap": rng.random_bool(0.3),
                });
            }
            Work::Parameterized => job["ParameterizedJob"] = json!({ "MetaOptional": ["m"] }),
            Work::Canary | Work::Batch | Work::Greedy | Work::System | Work::SysBatch => {}
        }
        job
    }

    /// Whether users change the job's count.
    pub fn scales(&self) -> bool {
        match self.work {
            Work::Service | Work::Canary | Work::Device | Work::Batch => true,
            Work::Greedy | Work::System | Work::SysBatch | Work::Periodic | Work::Parameterized => false,
        }
    }

    fn kind(&self) -> &'static str {
        match self.work {
            Work::Service | Work::Canary | Work::Device => "service",
            Work::Batch | Work::Greedy | Work::Periodic | Work::Parameterized => "batch",
            Work::System => "system",
            Work::SysBatch => "sysbatch",
        }
    }

    fn group(&self, rng: &mut SmallRng, sound: bool) -> Value {
        let delay = rng.random_range(5..20) * SECOND;
        // Batch jobs have attempts by default, which do not go with an unlimited number.
        let reschedule = json!({
            "Unlimited": true,
            "Attempts": 0,
            "Interval": 0,
            "Delay": delay,
            "MaxDelay": delay,
            "DelayFunction": "constant",
        });
        let mode = if self.work == Work::System { "delay" } else { "fail" };
        let mut group = json!({
            "Name": "g",
            "Count": self.count(rng),
            "EphemeralDisk": { "SizeMB": 110 },
            "RestartPolicy": {
                "Attempts": rng.random_range(0..3),
                "Interval": 300 * SECOND,
                "Delay": 2 * SECOND,
                "Mode": mode,
            },
            "Tasks": [{
                "Name": "t",
                "Driver": "mock_driver",
                "Config": self.script(rng, sound),
                "Env": { "E": rng.random_range(0..3).to_string() },
                "Resources": self.resources(),
                "KillTimeout": rng.random_range(3..6) * SECOND,
                "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 10 },
            }],
        });
        match self.work {
            Work::Service | Work::Canary | Work::Device => {
                group["ReschedulePolicy"] = reschedule;
                group["Migrate"] = json!({
                    "MaxParallel": 1,
                    "HealthCheck": "task_states",
                    "MinHealthyTime": 2 * SECOND,
                    "HealthyDeadline": 300 * SECOND,
                });
                group["Update"] = self.update(rng);
                let waits = rng.random_bool(0.6).then(|| rng.random_range(10..120) * SECOND);
                group["MaxClientDisconnect"] = json!(waits);
            }
            Work::Batch | Work::Greedy | Work::Periodic | Work::Parameterized => group["ReschedulePolicy"] = reschedule,
            Work::System => group["Update"] = self.update(rng),
            Work::SysBatch => {}
        }
        group
    }

    fn count(&self, rng: &mut SmallRng) -> i64 {
        match self.work {
            Work::Service | Work::Canary | Work::Batch => rng.random_range(1..=COUNT_MAX),
            Work::Device => rng.random_range(1..3),
            Work::Greedy => 30,
            Work::Periodic | Work::Parameterized => rng.random_range(1..3),
            Work::System | Work::SysBatch => 1,
        }
    }

    /// Configuration of the mock driver.
    fn script(&self, rng: &mut SmallRng, sound: bool) -> Value {
        let ends = |rng: &mut SmallRng, most: u32| json!({ "run_for": format!("{}s", rng.random_range(1..most)) });
        match self.work {
            Work::Canary if !sound && rng.random_bool(0.4) => match rng.random_bool(0.5) {
                true => json!({ "start_error": "it never starts" }),
                false => json!({ "run_for": "1s", "exit_code": 1 }),
            },
            Work::Service | Work::Canary | Work::Device | Work::System => json!({}),
            Work::Batch => ends(rng, 60),
            Work::Greedy => ends(rng, 240),
            Work::SysBatch | Work::Periodic | Work::Parameterized => ends(rng, 12),
        }
    }

    fn resources(&self) -> Value {
        match self.work {
            Work::Device => json!({ "Cores": 1, "MemoryMB": 100, "Devices": [{ "Name": "gpu", "Count": 1 }] }),
            Work::Batch => json!({ "CPU": 150, "MemoryMB": 200 }),
            Work::Greedy => json!({ "CPU": 250, "MemoryMB": 300 }),
            Work::Service | Work::Canary | Work::System | Work::SysBatch | Work::Periodic | Work::Parameterized => {
                json!({ "CPU": 100, "MemoryMB": 100 })
            }
        }
    }

    fn update(&self, rng: &mut SmallRng) -> Value {
        let health = |rng: &mut SmallRng, deadline: i64| {
            json!({
                "Stagger": 30 * SECOND,
                "MaxParallel": rng.random_range(1..3),
                "HealthCheck": "task_states",
                "MinHealthyTime": rng.random_range(1..5) * SECOND,
                "HealthyDeadline": deadline * SECOND,
                "ProgressDeadline": 2 * deadline * SECOND,
            })
        };
        if self.work == Work::Canary {
            let mut update = health(rng, 20);
            update["Canary"] = json!(rng.random_range(0..3));
            update["AutoPromote"] = json!(update["Canary"] != 0 && rng.random_bool(0.4));
            update["AutoRevert"] = json!(rng.random_bool(0.7));
            return update;
        }
        if rng.random_bool(0.5) {
            // These deployments do not fail: the deadline is longer than any run.
            return health(rng, 3600);
        }
        json!({ "MaxParallel": 0, "Stagger": 30 * SECOND, "HealthCheck": "task_states", "MinHealthyTime": 0,
            "HealthyDeadline": SECOND, "ProgressDeadline": 0 })
    }
}

/// Gives a job affinities and spreads, or none.
fn scatter(job: &mut Value, rng: &mut SmallRng) {
    if rng.random_bool(0.3) {
        let weight = if rng.random_bool(0.5) { 60 } else { -60 };
        job["Affinities"] =
            json!([{ "LTarget": "${node.class}", "RTarget": FAST_CLASS, "Operand": "=", "Weight": weight }]);
    }
    if rng.random_bool(0.3) {
        let targets = json!([{ "Value": FAST_CLASS, "Percent": 60 }]);
        job["Spreads"] = json!([{ "Attribute": "${node.class}", "Weight": 50, "SpreadTarget": targets }]);
    }
}

fn is_fast() -> Value {
    json!([{ "LTarget": "${node.class}", "RTarget": FAST_CLASS, "Operand": "=" }])
}
