//! The load tool: puts load on an agent that implements this HTTP API and prints rates and latencies.
//!
//! `commit`, `place`, `fanout`, `catchup`, `blocking` and `variables` run against any agent by `--addr`; `place` and
//! `variables` without one start a server in their own process, as `evals`, `lists`, `metrics`, `archive` and `c2m`
//! always do; `nodes` joins simulated nodes to any server by `--server`; `commit3`, `place3` and `failover` start three
//! processes, `rest` a server and a node; `memory` needs no server. Nothing is asserted: the output is for readers.

mod archive;
mod blocking;
mod c2m;
mod catchup;
mod chart;
mod cluster;
mod commit;
mod evals;
mod failover;
mod fanout;
mod frames;
mod http;
mod lists;
mod memory;
mod metrics;
mod nodes;
mod place;
mod place3;
mod report;
mod rest;
mod variables;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Puts load on an agent and prints what came of it.
#[derive(Parser)]
#[command(name = "songline-benches")]
struct Args {
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Durable writes: namespaces, over keep-alive connections.
    Commit(commit::Options),
    /// The same on three servers of this machine: through the leader, then through one that follows.
    Commit3(cluster::Options),
    /// Time without acknowledged writes on three servers after the leader is killed.
    Failover(failover::Options),
    /// Jobs until all their allocations are placed.
    Place(place::Options),
    /// The same on three servers with one processor each: the leader's schedulers alone, then those of all.
    Place3(place3::Options),
    /// One real node with sleeping tasks: time until they run, and what the agent takes while nothing happens.
    Rest(rest::Options),
    /// Simulated nodes of this process against a running server, until they are stopped.
    Nodes(Box<nodes::Options>),
    /// Two million allocations on 6,100 simulated nodes with a reader of the event stream, or a part of that.
    C2m(c2m::Options),
    /// Many subscribers of the event stream while jobs are written.
    Fanout(fanout::Options),
    /// Evaluations deleted by filter while others write.
    Evals(evals::Options),
    /// Memory of rows, and the time to save and restore them.
    Memory(memory::Options),
    /// Scrapes of metrics beside very many allocations.
    Metrics(metrics::Options),
    /// One subscriber that reads everything there is.
    Catchup(catchup::Options),
    /// Pages of very many evaluations by filters that few of them pass.
    Lists(lists::Options),
    /// Very many blocking queries, each on an object of its own.
    Blocking(blocking::Options),
    /// Variables of one kilobyte.
    Variables(variables::Options),
    /// Writes while an archive is saved, and its restore.
    Archive(archive::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Args::parse().load {
        Load::Commit(options) => commit::run(options).await,
        Load::Commit3(options) => cluster::run(options).await,
        Load::Failover(options) => failover::run(options).await,
        Load::Place(options) => place::run(options).await,
        Load::Place3(options) => place3::run(options).await,
        Load::Rest(options) => rest::run(options).await,
        Load::Nodes(options) => nodes::run(*options).await,
        Load::C2m(options) => c2m::run(options).await,
        Load::Evals(options) => evals::run(options).await,
        Load::Memory(options) => memory::run(&options),
        Load::Metrics(options) => metrics::run(options).await,
        Load::Fanout(options) => fanout::run(options).await,
        Load::Catchup(options) => catchup::run(options).await,
        Load::Lists(options) => lists::run(options).await,
        Load::Blocking(options) => blocking::run(options).await,
        Load::Variables(options) => variables::run(options).await,
        Load::Archive(options) => archive::run(options).await,
    }
}
