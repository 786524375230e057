//! How fast entries apply: namespace upserts, plans of 50 allocs, digests, checkpoints.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use songline_commands::{
    Actor, ApplyPlan, ClientAlloc, Command, Envelope, RegisterJob, RegisterNode, UpdateAllocsFromClient,
    UpsertNamespaces,
};
use songline_model::{
    AllocClientStatus, AllocId, AllocatedResources, AllocatedTaskResources, Allocation, EvalId, Job, Namespace, Node,
    NodeId, Str, Task, TaskGroup, Time,
};
use songline_projections::{State, apply};

const ALLOCS_PER_PLAN: u64 = 50;

fn envelope(command: impl Into<Command>) -> Envelope {
    Envelope::new(Time::from_secs(1_700_000_000), Actor::Anonymous, command)
}

fn id(kind: u8, number: u64) -> [u8; 16] {
    // Spread like random ids, so that neighbours in time are none in the tables.
    let mut bytes = [kind; 16];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes
}

fn next(state: &mut State, envelope: &Envelope) {
    let raft_index = state.raft_index() + 1;
    let applied = apply(state, raft_index, envelope);
    assert!(applied.result.is_ok(), "{:?}", applied.result);
    black_box(applied);
}

fn namespace(number: u64) -> Envelope {
    let namespace = Namespace {
        name: format!("load-{}", number % 1000).into(),
        description: "written by a load test".into(),
        ..Namespace::default()
    };
    envelope(UpsertNamespaces { namespaces: vec![namespace] })
}

fn job(number: u64) -> Arc<Job> {
    let task = Task { name: "web".into(), driver: "mock_driver".into(), ..Task::default() };
    let group = TaskGroup { name: "web".into(), count: 50, tasks: Some(vec![task]), ..TaskGroup::default() };
    let id = format!("job-{number}");
    Arc::new(Job {
        id: id.as_str().into(),
        namespace: "default".into(),
        name: id.into(),
        task_groups: Some(vec![group]),
        ..Job::default()
    })
}

fn alloc(number: u64, job: &Job) -> Arc<Allocation> {
    let tasks = [(Str::new("web"), AllocatedTaskResources::default())];
    Arc::new(Allocation {
        id: AllocId::from_bytes(id(1, number)),
        namespace: job.namespace.clone(),
        job_id: job.id.clone(),
        name: format!("{}.web[{}]", job.id, number % ALLOCS_PER_PLAN).into(),
        node_id: Some(NodeId::from_bytes(id(2, number % 100))),
        node_name: "node".into(),
        eval_id: Some(EvalId::from_bytes(id(3, number / ALLOCS_PER_PLAN))),
        task_group: "web".into(),
        allocated_resources: Some(Arc::new(AllocatedResources {
            tasks: Some(tasks.into()),
            ..AllocatedResources::default()
        })),
        ..Allocation::default()
    })
}

fn plan(state: &State, number: u64) -> Envelope {
    let job = Arc::clone(state.job("default", &format!("job-{}", number % 100)).expect("was registered"));
    let first = number * ALLOCS_PER_PLAN;
    let updated = (first..first + ALLOCS_PER_PLAN).map(|number| alloc(number, &job)).collect();
    envelope(ApplyPlan { job: Some(job), updated, ..ApplyPlan::default() })
}

fn with_jobs() -> State {
    let mut state = State::new();
    for number in 0..100 {
        let node = Node { id: NodeId::from_bytes(id(2, number)), ..Node::default() };
        next(&mut state, &envelope(RegisterNode { node, create_node_pool: false }));
        next(&mut state, &envelope(RegisterJob { job: job(number), versions_max: 6, ..RegisterJob::default() }));
    }
    state
}

fn with_allocs(count: u64) -> State {
    let mut state = with_jobs();
    for number in 0..count / ALLOCS_PER_PLAN {
        let plan = plan(&state, number);
        next(&mut state, &plan);
    }
    state
}

fn upserts(c: &mut Criterion) {
    let mut group = c.benchmark_group("apply");
    group.throughput(Throughput::Elements(1));
    group.bench_function("namespace_upsert", |b| {
        let mut state = State::new();
        let envelopes: Vec<Envelope> = (0..1000).map(namespace).collect();
        let mut number = 0;
        b.iter(|| {
            number += 1;
            next(&mut state, &envelopes[number % 1000]);
        });
    });
    group.bench_function("namespace_upsert_with_a_view_every_32", |b| {
        let mut state = State::new();
        let envelopes: Vec<Envelope> = (0..1000).map(namespace).collect();
        let (mut number, mut view) = (0, state.clone());
        b.iter(|| {
            number += 1;
            if number % 32 == 0 {
                view = state.clone();
            }
            next(&mut state, &envelopes[number % 1000]);
        });
        black_box(view);
    });
    group.finish();
}

fn allocs(c: &mut Criterion) {
    let mut group = c.benchmark_group("allocs");
    let state = with_allocs(20_000);
    group.throughput(Throughput::Elements(ALLOCS_PER_PLAN));
    group.bench_function("plan_of_50", |b| {
        let plan = plan(&state, 1_000_000);
        b.iter_batched_ref(|| state.clone(), |state| next(state, &plan), BatchSize::SmallInput);
    });
    group.bench_function("client_update_of_50", |b| {
        let told = |number: u64| ClientAlloc {
            id: AllocId::from_bytes(id(1, number)),
            node_id: NodeId::from_bytes(id(2, number % 100)),
            client_status: AllocClientStatus::Running,
            ..ClientAlloc::default()
        };
        let update =
            envelope(UpdateAllocsFromClient { allocs: (0..ALLOCS_PER_PLAN).map(told).collect(), evals: Vec::new() });
        b.iter_batched_ref(|| state.clone(), |state| next(state, &update), BatchSize::SmallInput);
    });
    group.finish();
}

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("state_of_100k_allocs");
    group.sample_size(10);
    let state = with_allocs(100_000);
    group.bench_function("digest", |b| b.iter(|| black_box(&state).digest()));
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("checkpoint_write", |b| {
        b.iter(|| state.write_checkpoint(&mut std::io::sink()).expect("writes"));
    });
    group.bench_function("checkpoint_read", |b| {
        b.iter(|| State::read_checkpoint(&mut bytes.as_slice()).expect("reads"));
    });
    group.finish();
}

criterion_group!(benches, upserts, allocs, whole);
criterion_main!(benches);
