//! The load tool: puts work on an agent that speaks this HTTP API and prints rates and latencies.
//!
//! `commit`, `place`, `fanout` and `catchup` work against any agent by `--addr`; `place` without one starts a server with simulated nodes
//! in its own process, as `evals` always does; `memory` needs no server. Nothing is asserted: what it prints is read by people.

mod catchup;
mod commit;
mod evals;
mod fanout;
mod frames;
mod http;
mod memory;
mod place;
mod report;

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
    /// Jobs until all their allocations are placed.
    Place(place::Options),
    /// Many subscribers of the event stream while jobs are written.
    Fanout(fanout::Options),
    /// Evaluations deleted by filter while others write.
    Evals(evals::Options),
    /// What rows cost in memory, and saving and restoring them.
    Memory(memory::Options),
    /// One subscriber that reads everything there is.
    Catchup(catchup::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Args::parse().load {
        Load::Commit(options) => commit::run(options).await,
        Load::Place(options) => place::run(options).await,
        Load::Evals(options) => evals::run(options).await,
        Load::Memory(options) => memory::run(&options),
        Load::Fanout(options) => fanout::run(options).await,
        Load::Catchup(options) => catchup::run(options).await,
    }
}
