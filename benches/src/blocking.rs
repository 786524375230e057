//! Very many blocking queries, each on a namespace of its own, while some namespaces are written: correctness and
//! delay of the wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::http::Connection;
use crate::report::Latencies;

/// Number of connections that write.
const WRITERS: u64 = 8;

#[derive(Args)]
pub struct Options {
    /// The agent. It has to allow so many connections of one client.
    #[arg(long)]
    addr: String,
    /// A token that may read and write namespaces.
    #[arg(long)]
    token: Option<String>,
    /// How many queries.
    #[arg(long, default_value_t = 10_000)]
    queries: u64,
    /// Writes a second.
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

/// Time at which the write of a namespace was sent, in nanoseconds since the beginning; 0 when no write waits for its
/// query's answer.
type Sent = Arc<[AtomicU64]>;

/// Counts of the queries' answers.
struct Seen {
    latencies: Latencies,
    wakes: u64,
    spurious: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut makers = Vec::new();
    for first in 0..16 {
        let mut connection = open(&options).await?;
        let queries = options.queries;
        makers.push(tokio::spawn(async move {
            for n in (first..queries).step_by(16) {
                connection.ok("PUT", "/v1/namespace", body(n, 0).as_bytes()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for maker in makers {
        maker.await??;
    }
    println!("blocking: {} namespaces made in {:.1} s", options.queries, started.elapsed().as_secs_f64());
    let sent: Sent = (0..options.queries).map(|_| AtomicU64::new(0)).collect();
    let (begin, end) = (Instant::now(), CancellationToken::new());
    let mut queries = Vec::new();
    for n in 0..options.queries {
        let connection = open(&options).await?;
        let (sent, end) = (Arc::clone(&sent), end.clone());
        queries.push(tokio::spawn(async move {
            tokio::select! {
                seen = follow(connection, n, &sent, begin, &end) => seen,
                () = tokio::time::sleep(Duration::from_secs(600)) => anyhow::bail!("query {n} has hung"),
            }
        }));
    }
    // Give every query time to start waiting before the first write.
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("blocking: {} queries wait", options.queries);
    let writing = Instant::now();
    let mut writers = Vec::new();
    for first in 0..WRITERS {
        let mut connection = open(&options).await?;
        let (sent, rate, total, objects) =
            (Arc::clone(&sent), options.rate.max(1), options.rate * options.seconds, options.queries);
        writers.push(tokio::spawn(async move {
            for n in (first..total).step_by(WRITERS as usize) {
                tokio::time::sleep_until((writing + Duration::from_nanos(1_000_000_000 * n / rate)).into()).await;
                // Consecutive namespaces are far apart, and none is repeated before all others had their turn.
                let object = n.wrapping_mul(7919) % objects;
                sent[usize::try_from(object)?].store(nanos(begin), Ordering::Release);
                connection.ok("PUT", "/v1/namespace", body(object, n + 1).as_bytes()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    let took = writing.elapsed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    end.cancel();
    let mut all = Seen { latencies: Latencies::new(), wakes: 0, spurious: 0 };
    for query in queries {
        let seen = query.await??;
        all.latencies.merge(&seen.latencies);
        all.wakes += seen.wakes;
        all.spurious += seen.spurious;
    }
    println!(
        "blocking: {} writes, {} queries answered, {} without a write",
        options.rate * options.seconds,
        all.wakes,
        all.spurious
    );
    all.latencies.print("blocking, from sending the write to reading the answer", took);
    Ok(())
}

async fn open(options: &Options) -> anyhow::Result<Connection> {
    Ok(Connection::open(&options.addr).await?.with_token(options.token.clone()))
}

/// Repeats a blocking query for the next change of a namespace.
async fn follow(
    mut connection: Connection,
    n: u64,
    sent: &Sent,
    begin: Instant,
    end: &CancellationToken,
) -> anyhow::Result<Seen> {
    let mut seen = Seen { latencies: Latencies::new(), wakes: 0, spurious: 0 };
    let mut index = 0;
    loop {
        let path = format!("/v1/namespace/blocking-{n}?index={index}&wait=300s");
        let answer = tokio::select! {
            answer = connection.ok("GET", &path, &[]) => answer?,
            () = end.cancelled() => return Ok(seen),
        };
        let row: Value = serde_json::from_slice(&answer)?;
        let found = row["ModifyIndex"].as_u64().context("a namespace has an index")?;
        if index > 0 {
            let at = sent[usize::try_from(n)?].swap(0, Ordering::AcqRel);
            seen.wakes += 1;
            if found <= index || at == 0 {
                seen.spurious += 1;
            } else {
                seen.latencies.record(Duration::from_nanos(nanos(begin).saturating_sub(at)));
            }
        }
        index = found;
    }
}

fn nanos(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn body(n: u64, round: u64) -> String {
    format!(r#"{{"Name":"blocking-{n}","Description":"written in round {round}"}}"#)
}
