//! `agent`: runs until it is told to stop.

mod flags;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use songline_cli::{errln, out};

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
    let config = read(&options)?;
    crate::logging::start(&config);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config, &options))
}

fn read(options: &Options) -> anyhow::Result<AgentConfig> {
    let mut config = if options.dev { AgentConfig::dev() } else { AgentConfig::default() };
    for path in &options.config {
        for warning in file::load(path, &mut config)? {
            errln!("Warning: {warning}");
        }
    }
    for warning in file::apply(&options.flags.document(), &mut config)? {
        errln!("Warning: {warning}");
    }
    config.check()?;
    config.check_servers_known()?;
    Ok(config)
}

async fn serve(config: AgentConfig, options: &Options) -> anyhow::Result<()> {
    // A file that would become larger than this process may write is an error of that write, as a full disk is, and not
    // the end of the process.
    let _kept =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
            .context("asking for the signal of files that are too large")?;
    let mut hang_up = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
        .context("asking for the signal to reload")?;
    let agent = Agent::start(config).await?;
    // An agent goes on without a reader of its output.
    out::note(format_args!("==> Songline agent started"));
    out::note(format_args!("==> HTTP: {}", agent.http_addr()));
    let reloads = async {
        while hang_up.recv().await.is_some() {
            agent.reload_from(|| read(options)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = reloads => Ok(()),
        signal = stop_signal() => {
            let signal = signal?;
            let leaves = match signal {
                "interrupt" => agent.config().leave_on_interrupt,
                _ => agent.config().leave_on_terminate,
            };
            let doing = if leaves { "leaving and stopping" } else { "stopping" };
            out::note(format_args!("==> Caught {signal}: {doing}"));
            if leaves {
                agent.leave().await;
            }
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
