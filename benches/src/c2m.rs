//! Two million allocations on 6,100 simulated nodes, with one reader of the event stream: the known challenge at any scale,
//! from one command.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde::Deserialize;
use songline_sim::Cluster;

use crate::chart::{Chart, Line};
use crate::http::{Connection, Lines};
use crate::memory::{processor_seconds, resident};
use crate::place::job;

/// The challenge at scale 1.
const NODES: f64 = 6_100.0;
const ALLOCS: f64 = 2_000_000.0;
/// Interval of the samples.
const SAMPLE: Duration = Duration::from_secs(1);
/// Samples between two lines of progress.
const PROGRESS: usize = 10;
/// The reader waits this long for the events of the last placements.
const READER_WAIT: Duration = Duration::from_secs(60);

#[derive(Args)]
pub struct Options {
    /// Part of the challenge: 0.1 is 610 nodes and 200,000 allocations.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Allocations per job.
    #[arg(long, default_value_t = 500)]
    count: usize,
    /// How many connections register jobs.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 3_600)]
    within: u64,
    /// File for the chart of rate and memory.
    #[arg(long, default_value = "c2m.svg")]
    svg: PathBuf,
}

/// Progress of the reader.
#[derive(Default)]
struct Seen {
    placed: AtomicU64,
    events: AtomicU64,
    index: AtomicU64,
    done: AtomicBool,
}

/// State of the run at one time.
struct Sample {
    at: Duration,
    placed: u64,
    resident: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    anyhow::ensure!(options.scale > 0.0 && options.count > 0, "--scale and --count are above 0");
    let nodes = (NODES * options.scale).ceil() as usize;
    let jobs = ((ALLOCS * options.scale) as usize).div_ceil(options.count);
    let wanted = (jobs * options.count) as u64;
    println!("c2m: {nodes} nodes, {jobs} jobs x {} = {wanted} allocations", options.count);
    let started = Instant::now();
    let cluster = Cluster::start(nodes).await?;
    println!("c2m: the nodes are ready after {:.1} s", started.elapsed().as_secs_f64());

    let (started, processor) = (Instant::now(), processor_seconds()?);
    let (seen, reader) = start_reader(&cluster.http_addr(), wanted).await?;
    let registering = tokio::spawn(register(cluster.http_addr(), jobs, options.count, options.connections.max(1)));
    let samples = sample(&seen, started, Duration::from_secs(options.within)).await?;
    registering.await??;
    let placed = seen.placed.load(Ordering::Relaxed);
    reader.abort();
    let last = samples.last().context("a sample")?;
    let (took, spent) = (last.at, processor_seconds()? - processor);
    let peak = samples.iter().map(|sample| sample.resident).max().unwrap_or_default();

    let restarted = Instant::now();
    let (cluster, stop) = cluster.restart().await?;
    let rows = first_answer(&cluster.http_addr()).await?;
    let restart = restarted.elapsed() - stop;
    println!("| measured | value |\n|---|---|");
    println!("| placed, as the reader saw it | {placed} of {wanted} in {:.1} s |", took.as_secs_f64());
    println!("| rate | {:.0}/s |", placed as f64 / took.as_secs_f64());
    println!("| processor time | {spent:.1} s, {:.1} us per allocation |", spent * 1e6 / placed.max(1) as f64);
    println!("| most resident memory | {} MB, {} bytes per allocation |", peak / 1_000_000, peak / placed.max(1));
    println!("| events that the reader saw | {} |", seen.events.load(Ordering::Relaxed));
    println!("| stop, with what was still to be written | {:.1} s |", stop.as_secs_f64());
    println!("| start until the first answer ({rows}) | {:.1} s |", restart.as_secs_f64());
    std::fs::write(&options.svg, chart(&samples, wanted).svg())
        .with_context(|| format!("writing {}", options.svg.display()))?;
    println!("c2m: the chart is in {}", options.svg.display());
    cluster.stop().await;
    anyhow::ensure!(placed == wanted, "not everything was placed in time");
    Ok(())
}

/// Subscribes and counts what comes. The reader checks that indexes only grow and that no placement comes twice.
async fn start_reader(
    addr: &str,
    wanted: u64,
) -> anyhow::Result<(Arc<Seen>, tokio::task::JoinHandle<anyhow::Result<()>>)> {
    let mut stream = Connection::open(addr).await?;
    stream.subscribe("/v1/event/stream?topic=Allocation&from=now").await?;
    let seen = Arc::new(Seen::default());
    let counts = Arc::clone(&seen);
    let reader = tokio::spawn(async move {
        let (mut lines, mut ids) = (Lines::default(), HashSet::new());
        while let Some(chunk) = stream.chunk().await? {
            for line in lines.push(&chunk) {
                let frame: Frame<'_> = serde_json::from_slice(&line)?;
                if frame.events.is_empty() {
                    continue;
                }
                let before = counts.index.swap(frame.index, Ordering::Relaxed);
                anyhow::ensure!(frame.index >= before, "index {} came after {before}", frame.index);
                counts.events.fetch_add(frame.events.len() as u64, Ordering::Relaxed);
                for event in frame.events.iter().filter(|event| event.kind == "PlanResult") {
                    let id: uuid::Uuid = event.key.parse()?;
                    anyhow::ensure!(ids.insert(id), "{id} was placed twice");
                }
                counts.placed.store(ids.len() as u64, Ordering::Relaxed);
                if ids.len() as u64 >= wanted {
                    counts.done.store(true, Ordering::Relaxed);
                }
            }
        }
        anyhow::bail!("the stream ended")
    });
    Ok((seen, reader))
}

/// The parts of a line of the stream that are examined.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct Frame<'a> {
    index: u64,
    #[serde(borrow)]
    events: Vec<Event<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "Type", borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "Key", borrow)]
    key: Cow<'a, str>,
}

/// Registers the jobs, each connection its share.
async fn register(addr: String, jobs: usize, count: usize, connections: usize) -> anyhow::Result<()> {
    let mut writers = Vec::new();
    for n in 0..connections {
        let mut connection = Connection::open(&addr).await?;
        writers.push(tokio::spawn(async move {
            for i in (n..jobs).step_by(connections) {
                connection.ok("PUT", "/v1/jobs", job(&format!("c2m-{i}"), count).to_string().as_bytes()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    Ok(())
}

/// Samples until everything is placed or the time is over.
async fn sample(seen: &Seen, started: Instant, within: Duration) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut still = Duration::ZERO;
    loop {
        let (at, placed) = (started.elapsed(), seen.placed.load(Ordering::Relaxed));
        let before = samples.last().map_or(0, |last: &Sample| last.placed);
        still = if placed == before { still + SAMPLE } else { Duration::ZERO };
        samples.push(Sample { at, placed, resident: resident()? });
        if samples.len() % PROGRESS == 0 {
            let rate = placed as f64 / at.as_secs_f64();
            println!("c2m: {:4.0} s, {placed} placed, {rate:.0}/s, {} MB", at.as_secs_f64(), resident()? / 1_000_000);
        }
        if seen.done.load(Ordering::Relaxed) || at >= within || still >= READER_WAIT {
            return Ok(samples);
        }
        tokio::time::sleep(SAMPLE).await;
    }
}

/// Waits for the leader and asks for one page of allocations. Returns the number of jobs that it has.
async fn first_answer(addr: &str) -> anyhow::Result<String> {
    let mut connection = Connection::open(addr).await?;
    loop {
        let answer = connection.request("GET", "/v1/allocations?per_page=1", &[]).await?;
        if answer.status == 200 && answer.next_token.is_some() {
            return Ok(format!("a page of {} bytes", answer.body.len()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn chart(samples: &[Sample], wanted: u64) -> Chart {
    let rate = samples.windows(2).map(|pair| {
        let seconds = (pair[1].at - pair[0].at).as_secs_f64().max(1e-3);
        (pair[1].at.as_secs_f64(), (pair[1].placed - pair[0].placed) as f64 / seconds)
    });
    let memory = samples.iter().map(|sample| (sample.at.as_secs_f64(), sample.resident as f64 / 1e6));
    Chart {
        title: format!("{wanted} allocations"),
        below: "seconds".to_owned(),
        lines: vec![
            Line { name: "placed per second".to_owned(), points: rate.collect() },
            Line { name: "resident MB".to_owned(), points: memory.collect() },
        ],
    }
}
