//! Variables of about one kilobyte, written over keep-alive connections as fast as they are answered.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use songline_sim::Cluster;

use crate::http::Connection;
use crate::memory::processor_seconds;
use crate::report::Latencies;

#[derive(Args)]
pub struct Options {
    /// The agent; without it a server is started in this process.
    #[arg(long)]
    addr: Option<String>,
    /// A token that may write variables.
    #[arg(long)]
    token: Option<String>,
    /// How many connections.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Paths of each connection.
    #[arg(long, default_value_t = 100)]
    paths: usize,
    /// Bytes of the one value.
    #[arg(long, default_value_t = 1_000)]
    bytes: usize,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = match &options.addr {
        Some(_) => None,
        None => Some(Cluster::start(0).await?),
    };
    let addr = cluster.as_ref().map(Cluster::http_addr).or_else(|| options.addr.clone()).unwrap_or_default();
    let outcome = write(&options, &addr).await;
    if let Some(cluster) = cluster {
        cluster.stop().await;
    }
    outcome
}

/// Waits for the first root key: a server that has just begun to lead generates it, and writes no variable before.
async fn wait_for_a_root_key(options: &Options, addr: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(addr).await?.with_token(options.token.clone());
    let until = Instant::now() + Duration::from_secs(10);
    let body = json!({ "Path": "load/first", "Items": { "value": "v" } }).to_string();
    while let Err(error) = connection.ok("PUT", "/v1/var/load/first", body.as_bytes()).await {
        if Instant::now() > until {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn write(options: &Options, addr: &str) -> anyhow::Result<()> {
    wait_for_a_root_key(options, addr).await?;
    let (started, before) = (Instant::now(), processor_seconds()?);
    let until = started + Duration::from_secs(options.seconds);
    let mut writers = Vec::new();
    for n in 0..options.connections {
        let mut connection = Connection::open(addr).await?.with_token(options.token.clone());
        let (paths, bytes) = (options.paths.max(1), options.bytes);
        writers.push(tokio::spawn(async move {
            let bodies: Vec<_> = (0..paths)
                .map(|path| {
                    json!({ "Path": format!("load/{n}/{path}"), "Items": { "value": "v".repeat(bytes) } }).to_string()
                })
                .collect();
            let mut latencies = Latencies::new();
            for (path, body) in bodies.iter().enumerate().cycle() {
                let sent = Instant::now();
                if sent >= until {
                    break;
                }
                connection.ok("PUT", &format!("/v1/var/load/{n}/{path}"), body.as_bytes()).await?;
                latencies.record(sent.elapsed());
            }
            anyhow::Ok(latencies)
        }));
    }
    let mut all = Latencies::new();
    for writer in writers {
        all.merge(&writer.await??);
    }
    let took = started.elapsed();
    all.print(&format!("variables, {} connections, {} bytes", options.connections, options.bytes), took);
    let processor = processor_seconds()? - before;
    println!(
        "variables: {:.1} us of processor time each, the tool's with it",
        processor * 1e6 / all.len().max(1) as f64
    );
    Ok(())
}
