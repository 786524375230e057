//! Memory that very many rows take, and the time of saving and restoring such a state. Needs no server, only a state.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use songline::commands::{Actor, ApplyPlan, Command, Envelope, RegisterNode};
use songline::model::{
    AllocClientStatus, AllocId, AllocMetric, AllocatedCpuResources, AllocatedMemoryResources, AllocatedResources,
    AllocatedSharedResources, AllocatedTaskResources, Allocation, EvalId, FlatMap, Node, NodeId, NodeScoreMeta, Str,
    TaskEvent, TaskRunState, TaskState, Time,
};
use songline::projections::State;

use crate::evals::load::{Load, spread};

#[derive(Args)]
pub struct Options {
    /// How many evaluations.
    #[arg(long, default_value_t = 1_000_000)]
    evals: u64,
    /// How many allocations.
    #[arg(long, default_value_t = 1_000_000)]
    allocs: u64,
    /// How many jobs they are of.
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut state = State::new();
    let mut load = Load::new(options.jobs);
    for command in load.prepare() {
        apply(&mut state, command)?;
    }
    for n in 0..5_000 {
        apply(
            &mut state,
            RegisterNode {
                node: Node { id: NodeId::from_bytes(spread(n)), ..Node::default() },
                create_node_pool: false,
            },
        )?;
    }
    let empty = resident()?;
    for _ in 0..options.evals / 100 {
        apply(&mut state, load.evals(100))?;
    }
    print_cost("eval", resident()?.saturating_sub(empty), options.evals);
    let with_evals = resident()?;
    let jobs: Vec<_> = state.jobs().cloned().collect();
    for n in 0..options.allocs / 50 {
        let job = &jobs[n as usize % jobs.len()];
        let updated = (n * 50..n * 50 + 50).map(|n| alloc(n, &job.namespace, &job.id)).collect();
        apply(&mut state, ApplyPlan { job: Some(Arc::clone(job)), updated, ..ApplyPlan::default() })?;
    }
    print_cost("alloc", resident()?.saturating_sub(with_evals), options.allocs);
    let digest = state.digest();

    let mut file = tempfile::tempfile()?;
    let started = (Instant::now(), processor_seconds()?);
    let mut out = std::io::BufWriter::with_capacity(1 << 20, &mut file);
    let written = state.write_checkpoint(&mut out)?;
    out.flush()?;
    drop(out);
    file.sync_data()?;
    print_time(&format!("saved {} MB", written.bytes / 1_000_000), started)?;
    drop(state);
    let dropped = resident()?;
    std::io::Seek::rewind(&mut file)?;
    let started = (Instant::now(), processor_seconds()?);
    let mut input = std::io::BufReader::with_capacity(1 << 20, &mut file);
    let restored = songline_server::ahead::read_state(&mut input as &mut dyn Read)?;
    print_time("restored", started)?;
    println!("memory: {} MB are resident after", resident()? / 1_000_000);
    println!("memory: {} MB were resident between", dropped / 1_000_000);
    anyhow::ensure!(restored.digest() == digest, "the restored state is another one");
    Ok(())
}

fn apply(state: &mut State, command: impl Into<Command>) -> anyhow::Result<()> {
    // As in a server: decoded from bytes, so that rows share no memory with their creator, and with a view held
    // meanwhile.
    let bytes = Envelope::new(Time::from_secs(1_700_000_000), Actor::Anonymous, command).encode()?;
    let view = state.clone();
    let raft_index = state.raft_index() + 1;
    songline::projections::apply(state, raft_index, &Envelope::decode(&bytes)?).result?;
    drop(view);
    Ok(())
}

/// An allocation as a plan has it.
pub fn alloc(n: u64, namespace: &str, job: &str) -> Arc<Allocation> {
    let resources = AllocatedTaskResources {
        cpu: AllocatedCpuResources { cpu_shares: 100, ..AllocatedCpuResources::default() },
        memory: AllocatedMemoryResources { memory_mb: 256, ..AllocatedMemoryResources::default() },
        ..AllocatedTaskResources::default()
    };
    Arc::new(Allocation {
        id: AllocId::from_bytes(spread(n + 10_000_000)),
        namespace: namespace.into(),
        job_id: job.into(),
        name: format!("{job}.group[{}]", n % 50).into(),
        node_id: Some(NodeId::from_bytes(spread(n % 5000))),
        node_name: "node".into(),
        eval_id: Some(EvalId::from_bytes(spread(n / 50))),
        task_group: "group".into(),
        client_status: AllocClientStatus::Running,
        task_states: Some(Arc::new([(Str::new("task"), running())].into())),
        allocated_resources: Some(Arc::new(AllocatedResources {
            tasks: Some([(Str::new("task"), resources)].into()),
            shared: AllocatedSharedResources { disk_mb: 300, ..AllocatedSharedResources::default() },
            ..AllocatedResources::default()
        })),
        metrics: Some(Arc::new(placement(n))),
        create_time: Time::from_secs(1_700_000_000),
        modify_time: Time::from_secs(1_700_000_000),
        ..Allocation::default()
    })
}

/// The metric of a placement that compared five nodes.
fn placement(n: u64) -> AllocMetric {
    let scored = |at| NodeScoreMeta {
        node_id: NodeId::from_bytes(spread((n + at) % 5000)),
        scores: Some([(Str::new("binpack"), 0.5), (Str::new("job-anti-affinity"), -0.1)].into_iter().collect()),
        norm_score: 0.2,
    };
    AllocMetric {
        nodes_evaluated: 5,
        nodes_in_pool: 5000,
        nodes_available: Some(Arc::new([(Str::new("dc1"), 5000)].into())),
        score_meta_data: Some((0..5).map(scored).collect()),
        ..AllocMetric::default()
    }
}

/// State of a task that its node has started.
fn running() -> TaskState {
    let event = |kind: &str, display: &str| TaskEvent {
        kind: kind.into(),
        time: Time::from_secs(1_700_000_000),
        display_message: display.into(),
        details: Some(FlatMap::new()),
        ..TaskEvent::default()
    };
    let events = vec![event("Received", "Task received by client"), event("Started", "Task started by client")];
    TaskState {
        state: TaskRunState::Running,
        started_at: Some(Time::from_secs(1_700_000_000)),
        events: Some(events),
        ..TaskState::default()
    }
}

fn print_cost(what: &str, bytes: u64, rows: u64) {
    println!(
        "memory: {} MB for {rows} {what}s, {:.0} bytes each",
        bytes / 1_000_000,
        bytes as f64 / rows.max(1) as f64
    );
}

fn print_time(what: &str, (started, before): (Instant, f64)) -> anyhow::Result<()> {
    let processor = processor_seconds()? - before;
    println!("memory: {what} in {:.2} s, {processor:.2} s of processor time", started.elapsed().as_secs_f64());
    Ok(())
}

/// Processor time of this process in seconds: on a machine with other work more meaningful than elapsed time.
pub fn processor_seconds() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is a name that may have spaces in it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |at: usize| fields.get(at).context("/proc/self/stat has times")?.parse::<u64>().context("times are numbers");
    // User and system time, in the hundredths of a second that Linux reports.
    Ok((ticks(11)? + ticks(12)?) as f64 / 100.0)
}

/// Resident memory of this process, in bytes.
pub fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("/proc/self/status tells VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}
