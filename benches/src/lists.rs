//! Pages of a list of very many evaluations, with filters that few of them pass, in a server of this process.

use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::Value;
use songline::commands::{Command, UpdateEvals};
use songline::model::{EvalStatus, NodeId};
use songline_sim::Cluster;

use crate::evals::load::{self, Load, spread};
use crate::http::Connection;
use crate::report::Latencies;

#[derive(Args)]
pub struct Options {
    /// How many evaluations.
    #[arg(long, default_value_t = 1_000_000)]
    evals: usize,
    /// One of so many passes each filter.
    #[arg(long, default_value_t = 1_000)]
    one_of: u64,
    /// Requests for each filter: the pages one after another, and again from the first.
    #[arg(long, default_value_t = 200)]
    requests: usize,
    /// Rows a page.
    #[arg(long, default_value_t = 100)]
    per_page: usize,
    /// Measures this filter too.
    #[arg(long)]
    filter: Vec<String>,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = Cluster::start(0).await?;
    let outcome = measure(&options, &cluster).await;
    cluster.stop().await;
    outcome
}

async fn measure(options: &Options, cluster: &Cluster) -> anyhow::Result<()> {
    let server = cluster.server().context("the cluster has a server")?;
    let started = Instant::now();
    let mut load = Load::new(usize::try_from(options.one_of)?);
    for command in load.prepare() {
        server.write(load::proposal(command)).await?;
    }
    let (mut made, total) = (0, options.evals as u64);
    while made < total {
        let count = (total - made).min(1_000);
        let Command::EvalUpdate(mut update) = load.evals(usize::try_from(count)?) else {
            unreachable!("it updates evaluations")
        };
        mark(&mut update, made, options.one_of);
        server.write(load::proposal(update.into())).await?;
        made += count;
    }
    println!("lists: {} evaluations written in {:.1} s", options.evals, started.elapsed().as_secs_f64());
    let node = NodeId::from_bytes(spread(0));
    let indexed = [
        "Status == \"failed\"".to_owned(),
        "Namespace == \"rare\"".to_owned(),
        format!("NodeID == \"{node}\""),
        "JobID == \"some-batch-job-00007\"".to_owned(),
        "Priority == 50 and JobID == \"some-batch-job-00007\" and Status == \"pending\"".to_owned(),
    ];
    let others = [
        "StatusDescription == \"needle\"".to_owned(),
        "StatusDescription contains \"eedl\"".to_owned(),
        format!("NodeID matches \"^{}\"", &node.to_string()[..8]),
        "NodeModifyIndex == 2007".to_owned(),
        "JobModifyIndex == 1007".to_owned(),
        "JobID == \"some-batch-job-00007\" or Status == \"failed\"".to_owned(),
        "Type == \"service\"".to_owned(),
        "".to_owned(),
    ];
    let mut connection = Connection::open(&cluster.http_addr()).await?;
    for filter in indexed.iter().chain(&others).chain(&options.filter) {
        pages(options, &mut connection, filter).await?;
    }
    Ok(())
}

/// Changes one of `one_of` evaluations: to a status, a namespace, a node and a description that no other has.
fn mark(update: &mut UpdateEvals, made: u64, one_of: u64) {
    for (n, eval) in (made..).zip(&mut update.evals) {
        eval.node_id = Some(NodeId::from_bytes(spread(n % one_of)));
        if n % one_of == one_of / 2 {
            eval.status = EvalStatus::Failed;
            eval.status_description = "needle".into();
            eval.namespace = "rare".into();
        }
    }
}

async fn pages(options: &Options, connection: &mut Connection, filter: &str) -> anyhow::Result<()> {
    let encoded: String = filter.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let path = format!("/v1/evaluations?namespace=*&per_page={}&filter={encoded}", options.per_page);
    let (mut latencies, mut rows, mut token, started) = (Latencies::new(), 0, String::new(), Instant::now());
    let mut full = 0;
    for _ in 0..options.requests {
        let sent = Instant::now();
        let answer = connection.request("GET", &format!("{path}&next_token={token}"), &[]).await?;
        latencies.record(sent.elapsed());
        ensure!(answer.status == 200, "{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        let page: Vec<Value> = serde_json::from_slice(&answer.body)?;
        rows += page.len();
        full += usize::from(page.len() == options.per_page);
        token = answer.next_token.unwrap_or_default();
    }
    let shown = if filter.is_empty() { "no filter" } else { filter };
    latencies.print(&format!("lists, {shown}: {rows} rows, {full} full pages"), started.elapsed());
    Ok(())
}
