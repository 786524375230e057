//! `agent`: runs until it is told to stop.

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
    /// Where everything durable is.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long)]
    bind: Option<String>,
    /// Name of the node.
    #[arg(long)]
    node: Option<String>,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    #[arg(long)]
    log_level: Option<String>,
}

pub(crate) fn run(options: Options) -> anyhow::Result<()> {
    let config = read(options)?;
    crate::logging::start(&config);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config))
}

fn read(options: Options) -> anyhow::Result<AgentConfig> {
    let mut config = if options.dev { AgentConfig::dev() } else { AgentConfig::default() };
    for path in &options.config {
        for warning in file::load(path, &mut config)? {
            eprintln!("Warning: {warning}");
        }
    }
    if let Some(dir) = options.data_dir {
        config.data_dir = Some(dir);
    }
    if let Some(bind) = options.bind {
        config.bind_addr = bind;
    }
    if let Some(name) = options.node {
        config.name = name;
    }
    if let Some(level) = options.log_level {
        config.log_level = level;
    }
    config.check()?;
    Ok(config)
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
