//! Many subscribers of the event stream while jobs are written at a steady rate: completeness and latency of the
//! events.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::report::Latencies;

/// Number of connections that write.
const WRITERS: u64 = 16;

#[derive(Args)]
pub struct Options {
    /// The agent.
    #[arg(long)]
    addr: String,
    /// How many subscribers. Agents accept 100 connections of one address (`http_max_conns_per_client`), the writer's
    /// included.
    #[arg(long, default_value_t = 80)]
    subscribers: usize,
    /// Writes a second.
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Process id of the agent: tells what a subscriber costs in memory.
    #[arg(long)]
    pid: Option<u32>,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let total = options.rate * options.seconds;
    let sent: Arc<[AtomicU64]> = (0..total).map(|_| AtomicU64::new(0)).collect();
    let prefix: Arc<str> = format!("fanout-{:x}-", std::process::id()).into();
    let give_up = tokio::time::Instant::now() + Duration::from_secs(options.seconds + 30);
    let before = options.pid.map(resident_bytes).transpose()?;
    let mut subscribers = Vec::new();
    for _ in 0..options.subscribers {
        let mut stream = Connection::open(&options.addr).await?;
        stream.subscribe("/v1/event/stream?topic=Job&from=now").await?;
        subscribers.push(tokio::spawn(follow(stream, Arc::clone(&prefix), Arc::clone(&sent), give_up)));
    }
    if let (Some(pid), Some(before)) = (options.pid, before) {
        let each = (resident_bytes(pid)? - before) / options.subscribers.max(1) as i64;
        println!("fanout: a subscriber that waits costs {each} bytes of the agent's memory");
    }
    // Several writers, so that a late answer does not delay the next write: the rate is kept.
    let (started, mut writers) = (Instant::now(), Vec::new());
    for first in 0..WRITERS.min(total) {
        let (mut writer, prefix, sent, rate) =
            (Connection::open(&options.addr).await?, Arc::clone(&prefix), Arc::clone(&sent), options.rate);
        writers.push(tokio::spawn(async move {
            for n in (first..total).step_by(WRITERS as usize) {
                let due = started + Duration::from_nanos(1_000_000_000 * n / rate.max(1));
                tokio::time::sleep_until(due.into()).await;
                let body = job(&format!("{prefix}{n}")).to_string();
                sent[usize::try_from(n)?].store(unix_nanos(), Ordering::Relaxed);
                writer.ok("PUT", "/v1/jobs", body.as_bytes()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    println!("fanout: {total} writes took {:.2} s", started.elapsed().as_secs_f64());
    let took = started.elapsed();
    if let (Some(pid), Some(before)) = (options.pid, before) {
        let each = (resident_bytes(pid)? - before) / options.subscribers.max(1) as i64;
        println!("fanout: after the writes, with the tail of events, {each} bytes for each subscriber");
    }
    let (mut all, mut frames, mut complete) = (Latencies::new(), 0, 0);
    for subscriber in subscribers {
        let (latencies, seen) = subscriber.await??;
        all.merge(&latencies);
        frames += seen;
        complete += usize::from(seen == total);
    }
    println!(
        "fanout: {complete} of {} subscribers got all {total} events; {frames} of {} deliveries",
        options.subscribers,
        total * options.subscribers as u64
    );
    all.print(
        &format!(
            "fanout, {} subscribers at {} writes/s, from sending the write to reading its event",
            options.subscribers, options.rate
        ),
        took,
    );
    Ok(())
}

/// Reads until every job's event has arrived, once each; records the number of events and the latencies since the
/// writes were sent.
async fn follow(
    mut stream: Connection,
    prefix: Arc<str>,
    sent: Arc<[AtomicU64]>,
    give_up: tokio::time::Instant,
) -> anyhow::Result<(Latencies, u64)> {
    let (mut line, mut latencies, mut missing) = (Vec::new(), Latencies::new(), sent.len());
    let mut seen = vec![false; sent.len()];
    while missing > 0 {
        let Ok(chunk) = tokio::time::timeout_at(give_up, stream.chunk()).await else { break };
        let chunk = chunk?.context("the stream ended")?;
        let now = unix_nanos();
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            rest.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            // A frame of one event begins with its key: parsing the whole frame would cost the tool more than the
            // agent spends on it.
            if let Some(n) = job_of(&line, &prefix) {
                ensure!(!std::mem::replace(&mut seen[n], true), "the event of job {n} came twice");
                latencies.record(Duration::from_nanos(now.saturating_sub(sent[n].load(Ordering::Relaxed))));
                missing -= 1;
            }
            line.clear();
        }
    }
    Ok((latencies, (sent.len() - missing) as u64))
}

/// Number of the job in a frame's event.
fn job_of(line: &[u8], prefix: &str) -> Option<usize> {
    let head = std::str::from_utf8(line.get(..line.len().min(200))?).ok()?;
    let (_, key) = head.split_once("\"Key\":\"")?;
    let (number, _) = key.strip_prefix(prefix)?.split_once('"')?;
    number.parse().ok()
}

fn job(id: &str) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": "batch", "Datacenters": ["nowhere"],
        "ParameterizedJob": {},
        "TaskGroups": [{ "Name": "g", "Count": 1, "Tasks": [{ "Name": "t", "Driver": "mock_driver" }] }],
    }})
}

/// Resident memory of a process, in bytes.
fn resident_bytes(pid: u32) -> anyhow::Result<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<i64>()? * 1024)
}

fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
