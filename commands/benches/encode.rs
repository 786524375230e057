//! Time to encode a command as a log entry, and to decode it.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use songline_commands::{Actor, ApplyPlan, Envelope, UpsertNamespaces};
use songline_model::{AllocId, Allocation, Job, Namespace, NodeId, Time};

fn namespace() -> Envelope {
    let row = Namespace { name: "load".into(), description: "x".repeat(64).into(), ..Namespace::default() };
    Envelope::new(Time::from_secs(1_700_000_000), Actor::Anonymous, UpsertNamespaces { namespaces: vec![row] })
}

fn plan(count: u8) -> Envelope {
    let alloc = |n| Allocation {
        id: AllocId::from_bytes([n; 16]),
        node_id: Some(NodeId::from_bytes([n; 16])),
        name: format!("web.g[{n}]").into(),
        job_id: "web".into(),
        namespace: "default".into(),
        task_group: "g".into(),
        ..Allocation::default()
    };
    let job = Job { id: "web".into(), namespace: "default".into(), ..Job::default() };
    let updated = (0..count).map(|n| Arc::new(alloc(n))).collect();
    Envelope::new(
        Time::from_secs(1_700_000_000),
        Actor::Leader("plans".into()),
        ApplyPlan { job: Some(Arc::new(job)), updated, ..ApplyPlan::default() },
    )
}

fn encode(c: &mut Criterion) {
    for (name, envelope) in [("namespace", namespace()), ("plan of 50", plan(50))] {
        let bytes = envelope.encode().expect("a sample encodes");
        c.bench_function(&format!("encode {name}"), |b| b.iter(|| black_box(&envelope).encode()));
        c.bench_function(&format!("decode {name}"), |b| b.iter(|| Envelope::decode(black_box(&bytes))));
    }
}

criterion_group!(benches, encode);
criterion_main!(benches);
