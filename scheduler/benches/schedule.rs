//! Time of one attempt: a job of 50 allocations on 100 nodes, empty ones and ones that hold 4,950 allocations
//! already; and a job of 500 on 10,000 nodes, without preferences, with an affinity, and with a spread. The cost of a
//! placement must not grow with what is there.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use songline_commands::{Actor, ApplyPlan, Command, Envelope, RegisterJob, RegisterNode};
use songline_model::{
    Affinity, DriverInfo, EphemeralDisk, EvalId, EvalTrigger, Evaluation, Job, JobId, JobType, Node, NodeId,
    NodeResources, NodeStatus, Resources, Spread, SpreadTarget, Task, TaskGroup, Time,
};
use songline_projections::{State, apply};
use songline_scheduler::schedule;

const NODES: u32 = 100;
const JOBS: u32 = 100;
const COUNT: i64 = 50;
const MANY_NODES: u32 = 10_000;
const MANY_ALLOCS: i64 = 500;
const NOW: Time = Time::from_secs(1_000_000);

fn commit(state: &mut State, command: impl Into<Command>) {
    let index = state.raft_index() + 1;
    let applied = apply(state, index, &Envelope::new(NOW, Actor::Anonymous, command));
    assert!(applied.result.is_ok(), "{:?}", applied.result);
}

fn node(number: u32) -> Node {
    let mut resources = NodeResources::default();
    resources.cpu.cpu_shares = 64_000;
    resources.memory.memory_mb = 256_000;
    resources.disk.disk_mb = 1_000_000;
    let mut node = Node {
        id: NodeId::from_bytes(u128::from(number).to_be_bytes()),
        name: format!("node-{number}").into(),
        datacenter: format!("dc{}", number % 3).into(),
        node_resources: Some(Arc::new(resources)),
        attributes: Some(Arc::new([("kernel.name".into(), "linux".into())].into())),
        drivers: Some(
            [("mock_driver".into(), DriverInfo { detected: true, healthy: true, ..DriverInfo::default() })].into(),
        ),
        status: NodeStatus::Ready,
        ..Node::default()
    };
    node.computed_class = node.compute_class();
    node
}

fn job(number: u32) -> Job {
    let resources = Resources { cpu: 100, memory_mb: 100, ..Resources::default() };
    let task = Task { name: "t".into(), driver: "mock_driver".into(), resources: Some(resources), ..Task::default() };
    let group = TaskGroup {
        name: "g".into(),
        count: COUNT,
        tasks: Some(vec![task]),
        ephemeral_disk: Some(EphemeralDisk { size_mb: 10, ..EphemeralDisk::default() }),
        ..TaskGroup::default()
    };
    Job {
        id: JobId::from(format!("job-{number}")),
        namespace: "default".into(),
        kind: JobType::Service,
        priority: 50,
        datacenters: Some(vec!["*".into()]),
        node_pool: "default".into(),
        task_groups: Some(vec![group]),
        ..Job::default()
    }
}

fn eval(number: u32) -> Evaluation {
    let mut id = [1; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    Evaluation {
        id: EvalId::from_bytes(id),
        namespace: "default".into(),
        priority: 50,
        kind: JobType::Service,
        triggered_by: EvalTrigger::JobRegister,
        job_id: JobId::from(format!("job-{number}")),
        ..Evaluation::default()
    }
}

/// A cluster on which the first `placed` jobs run.
fn cluster(placed: u32) -> State {
    let mut state = State::new();
    for number in 1..=NODES {
        commit(&mut state, RegisterNode { node: node(number), create_node_pool: true });
    }
    for number in 0..=placed {
        commit(&mut state, RegisterJob { job: Arc::new(job(number)), versions_max: 6, ..RegisterJob::default() });
        if number < placed {
            let plan = schedule(&state, &eval(number), 1, NOW).plan;
            let updated: Vec<_> = plan.node_allocation.into_values().flatten().collect();
            assert_eq!(updated.len() as i64, COUNT);
            commit(&mut state, ApplyPlan { job: plan.job, updated, updated_at: NOW, ..ApplyPlan::default() });
        }
    }
    state
}

fn place(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule");
    group.throughput(Throughput::Elements(COUNT as u64));
    let states = BTreeMap::from([("50 on empty nodes", 0), ("50 beside 4950", JOBS - 1)]);
    for (name, placed) in states {
        let state = cluster(placed);
        let eval = eval(placed);
        let mut seed = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                seed += 1;
                black_box(schedule(&state, &eval, seed, NOW))
            });
        });
    }
    group.finish();
}

/// Placements on many nodes, by the preferences of the job.
fn rank(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rank 500 on 10,000 nodes");
    group.throughput(Throughput::Elements(MANY_ALLOCS as u64)).sample_size(10);
    let target = |value: &str, percent| SpreadTarget { value: value.into(), percent };
    let affinity =
        Affinity { l_target: "${node.datacenter}".into(), operand: "=".into(), r_target: "dc1".into(), weight: 50 };
    let spread = Spread {
        attribute: "${node.datacenter}".into(),
        weight: 100,
        spread_target: Some(vec![target("dc0", 50), target("dc1", 30)]),
    };
    let preferences =
        [("plain", None, None), ("affinity", Some(vec![affinity]), None), ("spread", None, Some(vec![spread]))];
    let mut state = State::new();
    for number in 1..=MANY_NODES {
        commit(&mut state, RegisterNode { node: node(number), create_node_pool: true });
    }
    for (number, (name, affinities, spreads)) in (0..).zip(preferences) {
        let mut job = job(number);
        for group in job.task_groups.iter_mut().flatten() {
            group.count = MANY_ALLOCS;
            group.affinities.clone_from(&affinities);
            group.spreads.clone_from(&spreads);
        }
        commit(&mut state, RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() });
        let eval = eval(number);
        group.bench_function(name, |bencher| bencher.iter(|| black_box(schedule(&state, &eval, 1, NOW))));
    }
    group.finish();
}

criterion_group!(benches, place, rank);
criterion_main!(benches);
