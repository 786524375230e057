//! Measures the processor time of a scrape of `/v1/metrics` on a server with many allocations. The server runs in this
//! process.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use songline::commands::{ApplyPlan, RegisterNode};
use songline::model::{Node, NodeId};
use songline_server::Core;
use songline_sim::Cluster;

use crate::evals::load::{self, Load, spread};
use crate::http::Connection;
use crate::memory::{alloc, processor_seconds};

#[derive(Args)]
pub struct Options {
    /// How many allocations.
    #[arg(long, default_value_t = 1_000_000)]
    allocs: u64,
    /// How many jobs they are of.
    #[arg(long, default_value_t = 1_000)]
    jobs: usize,
    /// How many nodes they are on.
    #[arg(long, default_value_t = 5_000)]
    nodes: u64,
    /// Scrapes of each form.
    #[arg(long, default_value_t = 50)]
    scrapes: u32,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = Cluster::start(0).await?;
    let server = Arc::clone(cluster.server().context("the cluster has a server")?);
    let outcome = measure(&options, &server, &cluster.http_addr()).await;
    cluster.stop().await;
    outcome
}

async fn measure(options: &Options, server: &Arc<Core>, addr: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    for command in Load::new(options.jobs).prepare() {
        server.write(load::proposal(command)).await?;
    }
    for n in 0..options.nodes {
        let node = Node { id: NodeId::from_bytes(spread(n)), datacenter: "dc1".into(), ..Node::default() };
        server.write(load::proposal(RegisterNode { node, create_node_pool: false }.into())).await?;
    }
    let jobs: Vec<_> = server.view().jobs().cloned().collect();
    for n in 0..options.allocs / 500 {
        let job = &jobs[usize::try_from(n)? % jobs.len()];
        let updated = (n * 500..n * 500 + 500).map(|n| alloc(n, &job.namespace, &job.id)).collect();
        server
            .write(load::proposal(ApplyPlan { job: Some(Arc::clone(job)), updated, ..ApplyPlan::default() }.into()))
            .await?;
    }
    let rows = server.view().allocs().count();
    println!(
        "metrics: {rows} allocations of {} jobs written in {:.1} s",
        options.jobs,
        started.elapsed().as_secs_f64()
    );
    let mut connection = Connection::open(addr).await?;
    for (form, path) in [("prometheus", "/v1/metrics?format=prometheus"), ("json", "/v1/metrics")] {
        let (started, before) = (Instant::now(), processor_seconds()?);
        let mut bytes = 0;
        for _ in 0..options.scrapes {
            bytes = connection.ok("GET", path, &[]).await?.len();
        }
        ensure!(bytes > 0, "a scrape says something");
        let (each, took) =
            ((processor_seconds()? - before) / f64::from(options.scrapes), started.elapsed() / options.scrapes);
        println!(
            "metrics: {form}: {:.1} ms of processor time a scrape, server and client; {:.1} ms, {bytes} bytes",
            each * 1e3,
            took.as_secs_f64() * 1e3
        );
    }
    Ok(())
}
