//! Deletes most of very many evaluations by a filter during concurrent writes, in a server of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};
use songline_server::Core;
use songline_sim::Cluster;
use tokio_util::sync::CancellationToken;

use crate::http::Connection;
use crate::memory::processor_seconds;
use crate::report::Latencies;

pub mod load;

#[derive(Args)]
pub struct Options {
    /// How many evaluations. Every tenth does not match.
    #[arg(long, default_value_t = 1_000_000)]
    evals: usize,
    /// How many jobs they are of.
    #[arg(long, default_value_t = 1_000)]
    jobs: usize,
    /// Writes a second beside.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Over how many connections.
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// For how long writes are measured before, in seconds.
    #[arg(long, default_value_t = 5)]
    before: u64,
    /// Deletes those that this is true for.
    #[arg(long, default_value = r#"Status == "pending" and Priority == 50"#)]
    filter: String,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = Cluster::start(0).await?;
    let server = Arc::clone(cluster.server().context("the cluster has a server")?);
    let outcome = delete(&options, &server, &cluster.http_addr()).await;
    cluster.stop().await;
    outcome
}

async fn delete(options: &Options, server: &Arc<Core>, addr: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    load::write_evals(server, options.jobs, options.evals).await?;
    println!("evals: {} written in {:.1} s", options.evals, started.elapsed().as_secs_f64());

    server.apply_times().reset();
    let rate = (options.rate, options.connections);
    let before = write(rate, addr, Some(Duration::from_secs(options.before)), CancellationToken::new()).await?;
    before.print("writes before", Duration::from_secs(options.before));
    print_pauses(server, "apply before");

    let end = CancellationToken::new();
    let beside = tokio::spawn({
        let (addr, end) = (addr.to_owned(), end.clone());
        async move { write(rate, &addr, None, end).await }
    });
    server.apply_times().reset();
    let mut connection = Connection::open(addr).await?;
    let (started, processor) = (Instant::now(), processor_seconds()?);
    let body = json!({ "Filter": options.filter }).to_string();
    let answer: Value = serde_json::from_slice(&connection.ok("DELETE", "/v1/evaluations", body.as_bytes()).await?)?;
    let took = started.elapsed();
    print_pauses(server, "apply during");
    end.cancel();
    beside.await??.print("writes during", took);
    let deleted = answer["Count"].as_u64().context("an answer has a count")?;
    println!(
        "evals: {deleted} deleted in {:.2} s, {:.0}/s; {:.2} s of processor time, writes and tool included",
        took.as_secs_f64(),
        deleted as f64 / took.as_secs_f64(),
        processor_seconds()? - processor,
    );
    let view = server.view();
    let remaining = view.evals().filter(|eval| eval.priority == 50).count();
    println!("evals: {} are left, {remaining} of them should have gone", view.evals().count());
    ensure!(remaining == 0, "evaluations were left behind");
    Ok(())
}

/// Prints the times for which applying held the state.
pub fn print_pauses(server: &Core, what: &str) {
    let times = server.apply_times();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{what}: {} batches; p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms",
        times.count(),
        ms(times.quantile(0.5)),
        ms(times.quantile(0.99)),
        ms(times.quantile(0.999)),
        ms(times.longest()),
    );
}

/// Writes at a rate (per second, over `connections` connections), for a time or until the end. The latency of a late
/// write counts from the time at which it was due.
pub async fn write(
    (rate, connections): (u32, u32),
    addr: &str,
    within: Option<Duration>,
    end: CancellationToken,
) -> anyhow::Result<Latencies> {
    let each = Duration::from_secs(1) * connections / rate;
    let begin = tokio::time::Instant::now();
    let mut writers = Vec::new();
    for n in 0..connections {
        let mut connection = Connection::open(addr).await?;
        let end = end.clone();
        let mut due = begin + each * n / connections;
        writers.push(tokio::spawn(async move {
            let mut latencies = Latencies::new();
            let body = format!(r#"{{"Name":"load-{n}","Description":"written beside"}}"#);
            while !end.is_cancelled() && within.is_none_or(|within| due < begin + within) {
                tokio::time::sleep_until(due).await;
                connection.ok("PUT", "/v1/namespace", body.as_bytes()).await?;
                latencies.record(due.elapsed());
                due += each;
            }
            anyhow::Ok(latencies)
        }));
    }
    let mut all = Latencies::new();
    for writer in writers {
        all.merge(&writer.await??);
    }
    Ok(all)
}
