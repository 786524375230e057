//! Many subscribers of the event stream while jobs are written at a steady rate: does everybody get everything, and how soon.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use crate::http::{Connection, Lines};
use crate::report::Latencies;

#[derive(Args)]
pub struct Options {
    /// The agent.
    #[arg(long)]
    addr: String,
    /// How many subscribers.
    #[arg(long, default_value_t = 100)]
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
    let prefix = format!("fanout-{:x}-", std::process::id());
    let give_up = tokio::time::Instant::now() + Duration::from_secs(options.seconds + 30);
    let before = options.pid.map(resident_bytes).transpose()?;
    let mut subscribers = Vec::new();
    for _ in 0..options.subscribers {
        let mut stream = Connection::open(&options.addr).await?;
        stream.subscribe("/v1/event/stream?topic=Job&from=now").await?;
        subscribers.push(tokio::spawn(follow(stream, prefix.clone(), total, give_up)));
    }
    if let (Some(pid), Some(before)) = (options.pid, before) {
        let each = (resident_bytes(pid)? - before) / options.subscribers.max(1) as i64;
        println!("fanout: a subscriber that waits costs {each} bytes of the agent's memory");
    }
    let mut writer = Connection::open(&options.addr).await?;
    let started = Instant::now();
    for n in 0..total {
        let due = started + Duration::from_nanos(1_000_000_000 * n / options.rate.max(1));
        tokio::time::sleep_until(due.into()).await;
        writer.ok("PUT", "/v1/jobs", job(&format!("{prefix}{n}")).to_string().as_bytes()).await?;
    }
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
        &format!("fanout, {} subscribers at {} writes/s, from sending the write to reading its event", options.subscribers, options.rate),
        took,
    );
    Ok(())
}

async fn follow(mut stream: Connection, prefix: String, total: u64, give_up: tokio::time::Instant) -> anyhow::Result<(Latencies, u64)> {
    let (mut lines, mut latencies, mut seen) = (Lines::default(), Latencies::new(), 0);
    while seen < total {
        let Ok(chunk) = tokio::time::timeout_at(give_up, stream.chunk()).await else { break };
        let chunk = chunk?.context("the stream ended")?;
        let now = unix_nanos();
        for line in lines.push(&chunk) {
            if line.len() < 4 {
                continue;
            }
            // Looking for the marks in the text costs the tool far less than reading the whole event.
            let text = String::from_utf8_lossy(&line);
            if !text.contains(&prefix) || !text.contains("\"Type\":\"JobRegistered\"") {
                continue;
            }
            let frame: Value = serde_json::from_slice(&line)?;
            for event in frame["Events"].as_array().into_iter().flatten() {
                let job = &event["Payload"]["Job"];
                if event["Type"] == "JobRegistered"
                    && job["Version"] == 0
                    && let Some(sent) = job["Meta"]["sent"].as_str().and_then(|text| text.parse::<u64>().ok())
                {
                    latencies.record(Duration::from_nanos(now.saturating_sub(sent)));
                    seen += 1;
                }
            }
        }
    }
    Ok((latencies, seen))
}

fn job(id: &str) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": "batch", "Datacenters": ["nowhere"], "Meta": { "sent": unix_nanos().to_string() },
        "ParameterizedJob": {},
        "TaskGroups": [{ "Name": "g", "Count": 1, "Tasks": [{ "Name": "t", "Driver": "mock_driver" }] }],
    }})
}

/// What a process has in memory.
fn resident_bytes(pid: u32) -> anyhow::Result<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<i64>()? * 1024)
}

fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
