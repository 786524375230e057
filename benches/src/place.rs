//! Time from registering jobs until all their allocations are placed, measured by the event stream.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use songline_sim::Cluster;

use crate::http::{Connection, Lines};
use crate::report::Latencies;

#[derive(Args)]
pub struct Options {
    /// The agent; without it a server with simulated nodes is started in this process.
    #[arg(long)]
    addr: Option<String>,
    /// How many simulated nodes.
    #[arg(long, default_value_t = 100)]
    pub nodes: usize,
    /// How many jobs.
    #[arg(long, default_value_t = 100)]
    jobs: usize,
    /// How many allocations each.
    #[arg(long, default_value_t = 50)]
    count: usize,
    /// How many connections register jobs.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 120)]
    within: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = match &options.addr {
        Some(_) => None,
        None => Some(Cluster::start(options.nodes).await?),
    };
    let addr = cluster.as_ref().map(Cluster::http_addr).or_else(|| options.addr.clone()).unwrap_or_default();
    let outcome = place(&options, addr).await;
    if let Some(cluster) = cluster {
        cluster.stop().await;
    }
    outcome
}

/// Registers the jobs with the agent at `addr`, and prints when their allocations were placed.
pub async fn place(options: &Options, addr: String) -> anyhow::Result<()> {
    let wanted = options.jobs * options.count;
    let run = format!("{:x}", std::process::id());
    let prefix = format!("load-{run}-");
    let mut stream = Connection::open(&addr).await?;
    stream.subscribe("/v1/event/stream?topic=Allocation&from=now").await?;
    let within = Duration::from_secs(options.within);
    let watching = tokio::spawn(watch(stream, prefix.clone(), wanted, within));

    let started = Instant::now();
    let mut writers = Vec::new();
    for n in 0..options.connections.max(1) {
        let mine: Vec<_> = (n..options.jobs)
            .step_by(options.connections.max(1))
            .map(|i| job(&format!("{prefix}{i}"), options.count))
            .collect();
        let mut connection = Connection::open(&addr).await?;
        writers.push(tokio::spawn(async move {
            for body in mine {
                connection.ok("PUT", "/v1/jobs", body.to_string().as_bytes()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    println!("place: {} jobs registered in {:.2} s", options.jobs, started.elapsed().as_secs_f64());
    let seen = watching.await??;
    let mut latencies = Latencies::new();
    for at in &seen {
        latencies.record(at.duration_since(started));
    }
    let took = seen.iter().max().map_or(within, |last| last.duration_since(started));
    latencies
        .print(&format!("place, {} jobs x {}, time from the start until placed", options.jobs, options.count), took);
    Ok(())
}

/// Times at which the allocations of these jobs were placed.
async fn watch(
    mut stream: Connection,
    prefix: String,
    wanted: usize,
    within: Duration,
) -> anyhow::Result<Vec<Instant>> {
    let (mut lines, mut seen, mut ids) = (Lines::default(), Vec::new(), HashSet::new());
    let deadline = tokio::time::Instant::now() + within;
    while seen.len() < wanted {
        let chunk = tokio::time::timeout_at(deadline, stream.chunk())
            .await
            .with_context(|| format!("only {} of {wanted} allocations were placed in time", seen.len()))??
            .context("the stream ended")?;
        let now = Instant::now();
        for line in lines.push(&chunk) {
            // Placements are the only new allocations; the rest of an event is not parsed, because the reader runs
            // beside the server.
            let frame: Frame<'_> = serde_json::from_slice(&line)?;
            for event in frame.events {
                let ours = event.payload.allocation.is_some_and(|alloc| alloc.job_id.starts_with(&prefix));
                if ours && event.kind == "PlanResult" && ids.insert(event.key.into_owned()) {
                    seen.push(now);
                }
            }
        }
    }
    Ok(seen)
}

/// The parts of a line of the stream that are examined.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct Frame<'a> {
    #[serde(borrow)]
    events: Vec<Event<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event<'a> {
    #[serde(rename = "Type")]
    kind: Cow<'a, str>,
    key: Cow<'a, str>,
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Payload<'a> {
    #[serde(borrow)]
    allocation: Option<Placed<'a>>,
}

#[derive(Deserialize)]
struct Placed<'a> {
    #[serde(rename = "JobID")]
    job_id: Cow<'a, str>,
}

/// A service job of one small group, in the form of `PUT /v1/jobs`.
pub fn job(id: &str, count: usize) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "g", "Count": count,
            "Update": { "MaxParallel": 0 },
            "EphemeralDisk": { "SizeMB": 110 },
            "Tasks": [{ "Name": "t", "Driver": "mock_driver", "Config": { "run_for": "1h" }, "Resources": { "CPU": 10, "MemoryMB": 10 } }],
        }],
    }})
}
