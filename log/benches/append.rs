//! Time of a durable append: the files alone, then the whole log with many proposers at once.

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use songline_log::{
    CheckpointSource, Committed, Config, Kind, Log, Position, Record, StateMachine, Store, StoreConfig,
};

const COMMAND_BYTES: usize = 300;
const WRITERS: u64 = 64;

/// Entries per sync, written by the store alone.
fn group(c: &mut Criterion) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let (store, _) = Store::open(&temp.path().join("log"), StoreConfig::default()).expect("an empty log");
    let payload = Bytes::from(vec![7; COMMAND_BYTES]);
    let mut group = c.benchmark_group("store_append_durably");
    for entries in [1, 64, 1024] {
        group.throughput(Throughput::Elements(entries));
        group.bench_function(BenchmarkId::from_parameter(entries), |b| {
            b.iter(|| {
                let first = store.last().next;
                let records = (first..first + entries).map(|index| Record {
                    position: Position { term: 1, index },
                    kind: Kind::Command,
                    payload: payload.clone(),
                });
                let (tx, rx) = mpsc::channel();
                let done = move |outcome| tx.send(outcome).expect("the bench waits");
                store.append(records.collect(), Box::new(done)).expect("the store is open");
                rx.recv().expect("the writer answers").expect("the disk takes it");
            });
        });
    }
    group.finish();
}

/// A state that only counts, so that what is measured is the log.
struct Counter(u64);

impl StateMachine for Counter {
    type Reply = u64;

    fn apply(&mut self, batch: Vec<Committed>) -> Vec<u64> {
        batch
            .iter()
            .map(|_| {
                self.0 += 1;
                self.0
            })
            .collect()
    }

    fn checkpoint(&mut self) -> Box<dyn CheckpointSource> {
        Box::new(Counter(self.0))
    }

    fn install(&mut self, _position: Position, content: &mut dyn Read) -> io::Result<()> {
        let mut bytes = [0; 8];
        content.read_exact(&mut bytes)?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }
}

impl CheckpointSource for Counter {
    fn write_to(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.0.to_le_bytes())
    }
}

/// Acknowledged proposals with many tasks, each waiting for its answer before the next.
fn propose(c: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let temp = tempfile::tempdir().expect("a temporary directory");
    let log = runtime
        .block_on(Log::open(Config::new(temp.path()), Counter(0), std::sync::Arc::new(songline_log::NoTransport)))
        .expect("an empty log");
    let payload = Bytes::from(vec![7; COMMAND_BYTES]);
    let mut group = c.benchmark_group("log_propose");
    for writers in [1, WRITERS] {
        group.throughput(Throughput::Elements(writers));
        group.bench_function(BenchmarkId::from_parameter(writers), |b| {
            b.iter_custom(|rounds| runtime.block_on(run(&log, &payload, writers, rounds)));
        });
    }
    group.finish();
    runtime.block_on(log.shutdown());
}

async fn run(log: &Log<Counter>, payload: &Bytes, writers: u64, rounds: u64) -> Duration {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..writers {
        let (log, payload) = (log.clone(), payload.clone());
        tasks.spawn(async move {
            for _ in 0..rounds {
                log.propose(payload.clone()).await.expect("the log is open");
            }
        });
    }
    tasks.join_all().await;
    started.elapsed()
}

criterion_group!(benches, group, propose);
criterion_main!(benches);
