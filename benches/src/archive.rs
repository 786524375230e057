//! Writes at a steady rate while an archive of a large state is saved and then restored, in a server of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use songline::commands::ApplyPlan;
use songline_server::Core;
use songline_sim::Cluster;
use tokio_util::sync::CancellationToken;

use crate::evals::load;
use crate::evals::{print_pauses, write};
use crate::http::Connection;
use crate::memory::{alloc, processor_seconds};

#[derive(Args)]
pub struct Options {
    /// How many evaluations.
    #[arg(long, default_value_t = 1_000_000)]
    evals: usize,
    /// How many allocations.
    #[arg(long, default_value_t = 1_000_000)]
    allocs: u64,
    /// How many jobs they are of.
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
    /// Writes a second beside.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Over how many connections.
    #[arg(long, default_value_t = 16)]
    connections: u32,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = Cluster::start(0).await?;
    let server = Arc::clone(cluster.server().context("the cluster has a server")?);
    let outcome = save_and_restore(&options, &server, &cluster.http_addr()).await;
    cluster.stop().await;
    outcome
}

async fn save_and_restore(options: &Options, server: &Arc<Core>, addr: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    load::write_evals(server, options.jobs, options.evals).await?;
    let jobs: Vec<_> = server.view().jobs().cloned().collect();
    for n in 0..options.allocs / 50 {
        let job = &jobs[usize::try_from(n)? % jobs.len()];
        let updated = (n * 50..n * 50 + 50).map(|n| alloc(n, &job.namespace, &job.id)).collect();
        server
            .write(load::proposal(ApplyPlan { job: Some(Arc::clone(job)), updated, ..ApplyPlan::default() }.into()))
            .await?;
    }
    println!(
        "archive: {} evals and {} allocs written in {:.1} s",
        options.evals,
        options.allocs,
        started.elapsed().as_secs_f64()
    );

    server.apply_times().reset();
    let rate = (options.rate, options.connections);
    let before = write(rate, addr, Some(Duration::from_secs(5)), CancellationToken::new()).await?;
    before.print("writes before", Duration::from_secs(5));
    print_pauses(server, "apply before");
    let end = CancellationToken::new();
    let beside = tokio::spawn({
        let (addr, end) = (addr.to_owned(), end.clone());
        async move { write(rate, &addr, None, end).await }
    });
    server.apply_times().reset();
    let mut connection = Connection::open(addr).await?;
    let (started, processor) = (Instant::now(), processor_seconds()?);
    let archive = connection.ok("GET", "/v1/operator/snapshot", &[]).await?;
    let took = started.elapsed();
    print_pauses(server, "apply while saving");
    end.cancel();
    beside.await??.print("writes while saving", took);
    let processor = processor_seconds()? - processor;
    println!(
        "archive: {} MB saved in {:.2} s; {processor:.2} s of processor time, writes and tool included",
        archive.len() / 1_000_000,
        took.as_secs_f64()
    );

    let (started, processor) = (Instant::now(), processor_seconds()?);
    connection.ok("PUT", "/v1/operator/snapshot", &archive).await?;
    let processor = processor_seconds()? - processor;
    println!("archive: restored in {:.2} s, {processor:.2} s of processor time", started.elapsed().as_secs_f64());
    print_pauses(server, "apply with the restore");
    Ok(())
}
