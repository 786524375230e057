//! Time of one attempt: a job of 50 allocations on 100 nodes, empty ones and ones that hold 4,950 allocations
//! already. The cost of a placement must not grow with what is there.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use songline_commands::{Actor, ApplyPlan, Command, Envelope, RegisterJob, RegisterNode};
use songline_model::{
    DriverInfo, EphemeralDisk, EvalId, EvalTrigger, Evaluation, Job, JobId, JobType, Node, NodeId, NodeResources,
    NodeStatus, Resources, Task, TaskGroup, Time,
};
use songline_projections::{State, apply};
use songline_scheduler::schedule;

const NODES: u8 = 100;
const JOBS: u32 = 100;
const COUNT: i64 = 50;
const NOW: Time = Time::from_secs(1_000_000);

fn commit(state: &mut State, command: impl Into<Command>) {
    let index = state.raft_index() + 1;
    let applied = apply(state, index, &Envelope::new(NOW, Actor::Anonymous, command));
    assert!(applied.result.is_ok(), "{:?}", applied.result);
}

fn node(number: u8) -> Node {
    let mut resources = NodeResources::default();
    resources.cpu.cpu_shares = 64_000;
    resources.memory.memory_mb = 256_000;
    resources.disk.disk_mb = 1_000_000;
    let mut node = Node {
        id: NodeId::from_bytes([number; 16]),
        name: format!("node-{number}").into(),
        datacenter: "dc1".into(),
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
            commit(&mut state, ApplyPlan { job: plan.job, updated, updated_at: NOW.nanos(), ..ApplyPlan::default() });
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

criterion_group!(benches, place);
criterion_main!(benches);
