//! The leader of three servers is killed repeatedly under load: measures the longest time without an acknowledged
//! write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::cluster::{Cluster, Program};
use crate::http::Connection;
use crate::report::Latencies;

/// Timeout of an answer, after which a writer uses another server.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time until writes continue.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// Number of acknowledged writes in a row after which writing counts as continued.
const SETTLED: usize = 200;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    servers: Program,
    /// How often the leader is killed.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// How many connections write at a time.
    #[arg(long, default_value_t = 16)]
    connections: usize,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut cluster = Cluster::start(&options.servers).await?;
    let addresses: Vec<String> = cluster.servers.iter().map(|server| server.http.clone()).collect();
    let stop: Arc<AtomicBool> = Arc::default();
    let (tell, mut acknowledged) = unbounded_channel();
    let writers: Vec<_> = (0..options.connections)
        .map(|n| tokio::spawn(write(addresses.clone(), n, Arc::clone(&stop), tell.clone())))
        .collect();
    drop(tell);
    let started = Instant::now();
    let mut gaps = Latencies::new();
    let mut writes = 0;
    for _ in 0..options.kills {
        writes += settle(&mut acknowledged).await?.0;
        let leader = cluster.leader().await?;
        // Discard the writes that were acknowledged before the kill.
        while acknowledged.try_recv().is_ok() {
            writes += 1;
        }
        cluster.servers[leader].kill()?;
        let (count, longest) = settle(&mut acknowledged).await?;
        writes += count;
        gaps.record(longest);
        cluster.servers[leader].start_again()?;
        cluster.leader().await?;
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await?;
    }
    println!(
        "failover, {} kills of the leader, {} connections, {writes} writes seen",
        options.kills, options.connections
    );
    gaps.print("longest time without a write acknowledged to any client", started.elapsed());
    Ok(())
}

/// Waits until writes continue, and returns the number of writes seen and the longest time between two of them.
async fn settle(acknowledged: &mut UnboundedReceiver<Instant>) -> anyhow::Result<(usize, Duration)> {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    for _ in 0..SETTLED {
        let at = timeout(BACK_WITHIN, acknowledged.recv()).await.context("writes did not come back")?;
        let Some(at) = at else { bail!("all writers ended") };
        longest = longest.max(at.saturating_duration_since(last));
        last = last.max(at);
    }
    Ok((SETTLED, longest))
}

/// Writes until told to stop, on any server that accepts the writes.
async fn write(addresses: Vec<String>, n: usize, stop: Arc<AtomicBool>, tell: UnboundedSender<Instant>) {
    let body = format!(r#"{{"Name":"failover-{n}","Description":"written again and again"}}"#).into_bytes();
    let mut server = n;
    while !stop.load(Ordering::SeqCst) {
        let address = &addresses[server % addresses.len()];
        server += 1;
        // Any failure here is part of the measured outage: try the next server.
        let Ok(Ok(mut connection)) = timeout(TIMEOUT, Connection::open(address)).await else {
            tokio::task::yield_now().await;
            continue;
        };
        while let Ok(Ok(_)) = timeout(TIMEOUT, connection.ok("PUT", "/v1/namespace", &body)).await {
            if tell.send(Instant::now()).is_err() || stop.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}
