//! Durable writes over keep-alive connections, each waiting for its answer.

use std::time::{Duration, Instant};

use clap::Args;

use crate::http::Connection;
use crate::report::Latencies;

#[derive(Args)]
pub struct Options {
    /// The agent, as `http://127.0.0.1:4646`.
    #[arg(long)]
    addr: String,
    /// How many connections write at a time.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Length of each namespace's description, in bytes.
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    /// How many namespaces each connection writes in turn.
    #[arg(long, default_value_t = 100)]
    names: usize,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let started = Instant::now();
    let mut writers = Vec::new();
    for n in 0..options.connections {
        let mut connection = Connection::open(&options.addr).await?;
        let description = "x".repeat(options.bytes.min(256));
        let bodies: Vec<_> =
            (0..options.names.max(1)).map(|i| format!(r#"{{"Name":"load-{n}-{i}","Description":"{description}"}}"#).into_bytes()).collect();
        writers.push(tokio::spawn(async move {
            let mut latencies = Latencies::new();
            for body in bodies.iter().cycle() {
                let sent = Instant::now();
                if sent >= deadline {
                    break;
                }
                connection.ok("PUT", "/v1/namespace", body).await?;
                latencies.record(sent.elapsed());
            }
            anyhow::Ok(latencies)
        }));
    }
    let mut all = Latencies::new();
    for writer in writers {
        all.merge(&writer.await??);
    }
    all.print(&format!("commit, {} connections, {} bytes", options.connections, options.bytes), started.elapsed());
    Ok(())
}
