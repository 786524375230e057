//! `agent`: runs until it is told to stop.

mod flags;

use std::path::PathBuf;

use clap::Args;

use crate::agent::Agent;
use crate::config::{AgentConfig, file};

#[derive(Args)]
pub(crate) struct Options {
    /// A server and a node for this machine, in a temporary directory.
    #[arg(long)]
    dev: bool,
    /// A configuration file or a directory of them; may be given several times.
    #[arg(long)]
    config: Vec<PathBuf>,
    #[command(flatten)]
    flags: flags::Flags,
}

pub(crate) fn run(options: Options) -> anyhow::Result<()> {
    let config = read(options)?;
    start_logging(&config);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config))
}

fn read(options: Options) -> anyhow::Result<AgentConfig> {
    let mut config = if options.dev { AgentConfig::dev() } else { AgentConfig::default() };
    for path in &options.config {
        for warning in file::load(path, &mut config)? {
            eprintln!("Warning: {warning}");
        }
    }
    for warning in file::apply(&options.flags.document(), &mut config)? {
        eprintln!("Warning: {warning}");
    }
    config.check()?;
    Ok(config)
}

/// Log lines go to standard error: standard output says where the agent is.
pub(crate) fn start_logging(config: &AgentConfig) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(format!("error,{}", ours(&config.log_level.to_lowercase()))));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call, in a test, keeps the first.
    let _ = if config.log_json { lines.json().try_init() } else { lines.try_init() };
}

/// The level for our own crates; libraries say only what went wrong.
fn ours(level: &str) -> String {
    let crates =
        ["songline", "songline_api", "songline_client", "songline_log", "songline_projections", "songline_scheduler", "songline_sim"];
    crates.map(|name| format!("{name}={level}")).join(",")
}

async fn serve(config: AgentConfig) -> anyhow::Result<()> {
    let agent = Agent::start(config).await?;
    println!("==> Songline agent started");
    println!("==> HTTP: {}", agent.http_addr());
    tokio::select! {
        signal = stop_signal() => {
            println!("==> Caught {}: stopping", signal?);
            agent.stop().await;
            Ok(())
        }
        failure = agent.failed() => Err(anyhow::anyhow!("{failure}")),
    }
}

/// Returns the name of the signal that asks this process to end.
pub(crate) async fn stop_signal() -> anyhow::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(tokio::select! {
        _ = interrupt.recv() => "interrupt",
        _ = terminate.recv() => "terminated",
    })
}
