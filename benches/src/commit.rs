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
    #[command(flatten)]
    writes: Writes,
}

/// The payload that is written.
#[derive(Args, Clone)]
pub struct Writes {
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
    write("commit", &options.addr, &options.writes).await
}

/// Writes to one agent and prints rate and latencies.
pub async fn write(what: &str, addr: &str, writes: &Writes) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(writes.seconds);
    let started = Instant::now();
    let mut writers = Vec::new();
    for n in 0..writes.connections {
        let mut connection = Connection::open(addr).await?;
        let description = "x".repeat(writes.bytes.min(256));
        let bodies: Vec<_> = (0..writes.names.max(1))
            .map(|i| format!(r#"{{"Name":"load-{n}-{i}","Description":"{description}"}}"#).into_bytes())
            .collect();
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
    all.print(&format!("{what}, {} connections, {} bytes", writes.connections, writes.bytes), started.elapsed());
    Ok(())
}
