//! `dev PATH..`: an agent for this machine, job files, and their change events in readable lines until Ctrl-C.

mod files;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use songline_cli::client::{escape, text};
use songline_cli::{Client, event, out};

use super::agent;
use crate::agent::Agent;
use crate::config::AgentConfig;
use files::{Change, Files};

/// How long the jobs' allocations may take to end after Ctrl-C.
const STOP_WAIT: Duration = Duration::from_secs(30);
/// Interval at which `-watch` looks at the files.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(crate) struct Options {
    /// Port of HTTP, 0 for a free one; other agents reach this one at free ports then. Without the flag the usual ports
    /// are taken, and free ones in place of those that are in use.
    #[arg(long)]
    http_port: Option<u16>,
    /// A value of a variable of the job files, `name=value`; may be repeated.
    #[arg(long, action = clap::ArgAction::Append)]
    var: Vec<String>,
    /// A file with values of variables; may be repeated.
    #[arg(long, action = clap::ArgAction::Append)]
    var_file: Vec<String>,
    /// Run a job again whenever its file or a file of variables changes, and new files of directories.
    #[arg(long)]
    watch: bool,
    /// Job files, HCL or JSON, and directories of files `*.nomad`, `*.nomad.hcl`, `*.nomad.json`.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(options: Options) -> anyhow::Result<()> {
    let Options { http_port, var, var_file, watch, paths } = options;
    let files = Files::open(paths, var, var_file)?;
    let mut config = AgentConfig { log_level: "warn".into(), ..AgentConfig::dev() };
    // Another agent of this machine may have the usual ports. With a port of its own the command leaves them all alone.
    (config.http_port, config.rpc_port, config.serf_port) = match http_port {
        Some(port) => (port, 0, 0),
        None => (free_port(config.http_port), free_port(config.rpc_port), free_port(config.serf_port)),
    };
    crate::logging::start(&config);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(play(config, files, watch))
}

async fn play(config: AgentConfig, files: Files, watch: bool) -> anyhow::Result<()> {
    let agent = Agent::start(config).await?;
    let outcome = follow(&agent, files, watch).await;
    agent.stop().await;
    out::note(format_args!("==> stopped"));
    outcome
}

async fn follow(agent: &Agent, files: Files, watch: bool) -> anyhow::Result<()> {
    let address = agent.http_addr();
    let jobs = if files.read().len() == 1 { "the job" } else { "the jobs" };
    out::note(format_args!(
        "==> agent at {address} (same API and tools: NOMAD_ADDR={address}); Ctrl-C stops {jobs} and the agent"
    ));
    let api = Client::at(&address).map_err(anyhow::Error::msg)?;
    let mut lines = event::follow(&api, "after_index=0").await?;
    wait_for_node(&api).await?;
    let mut stage = Stage { api, files, jobs: BTreeSet::new() };
    let shown = stage.show(&mut lines, watch).await;
    let stopped = stage.stop(&mut lines).await;
    match shown {
        // The reader of the output needs no more: that is the same as Ctrl-C.
        Err(error) if is_broken_pipe(&error) => stopped,
        shown => shown.and(stopped),
    }
}

/// The jobs that run, and their files.
struct Stage {
    api: Client,
    files: Files,
    jobs: BTreeSet<String>,
}

impl Stage {
    /// Registers the jobs and prints events until the signal to stop.
    async fn show(&mut self, lines: &mut event::Lines, watch: bool) -> anyhow::Result<()> {
        let bodies: Vec<Value> = self.files.read().iter().map(|read| read.body.clone()).collect();
        for body in bodies {
            self.register(&body).await?;
        }
        let interrupted = agent::stop_signal();
        tokio::pin!(interrupted);
        let mut ticks = tokio::time::interval(WATCH_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                line = lines.next() => match line? {
                    Some(line) => print(&line)?,
                    None => anyhow::bail!("the event stream ended"),
                },
                signal = &mut interrupted => {
                    let jobs: Vec<String> = self.jobs.iter().map(|job| format!("{job:?}")).collect();
                    let noun = if jobs.len() == 1 { "job" } else { "jobs" };
                    say(&format!("==> caught {}: stopping {noun} {}", signal?, jobs.join(", ")))?;
                    return Ok(());
                }
                _ = ticks.tick(), if watch => self.take_changes().await?,
            }
        }
    }

    async fn register(&mut self, body: &Value) -> anyhow::Result<()> {
        let answer = self.api.put("/v1/jobs", body).await?;
        let job = text(&body["Job"]["ID"]).to_owned();
        say(&format!("==> job {job:?} registered at index {}", answer["JobModifyIndex"]))?;
        if !text(&answer["Warnings"]).is_empty() {
            say(text(&answer["Warnings"]))?;
        }
        self.jobs.insert(job);
        Ok(())
    }

    /// Registers jobs whose files have changed. A file that cannot be read, or a job that is refused, changes nothing.
    async fn take_changes(&mut self) -> anyhow::Result<()> {
        for change in self.files.changes() {
            match change {
                Change::Unreadable { file, reason } => {
                    say(&format!("==> {} has changed, and what runs stays as it is: {reason}", file.display()))?;
                }
                Change::Job { file, body, replaces } => {
                    say(&format!("==> {} has changed", file.display()))?;
                    match self.register(&body).await {
                        Err(error) if !is_broken_pipe(&error) => {
                            say(&format!("==> what runs stays as it is: {error:#}"))?;
                            continue;
                        }
                        registered => registered?,
                    }
                    if let Some(old) = replaces {
                        say(&format!("==> stopping job {old:?}, which has no file any more"))?;
                        self.api.delete(&format!("/v1/job/{}", escape(&old))).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stops the jobs and prints events until all of their allocations have ended.
    async fn stop(&self, lines: &mut event::Lines) -> anyhow::Result<()> {
        for job in &self.jobs {
            self.api.delete(&format!("/v1/job/{}", escape(job))).await?;
        }
        let ended = async {
            while !self.all_ended().await? {
                // Only news can have ended something.
                match lines.next().await? {
                    Some(line) => readable(&line)?.iter().for_each(|text| out::note(format_args!("{text}"))),
                    None => break,
                }
            }
            anyhow::Ok(())
        };
        if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
            out::note(format_args!("==> not everything ended in time; the agent ends the rest"));
        }
        Ok(())
    }

    async fn all_ended(&self) -> anyhow::Result<bool> {
        for job in &self.jobs {
            let allocs = self.api.get(&format!("/v1/job/{}/allocations", escape(job))).await?;
            let has_ended = |alloc: &Value| matches!(text(&alloc["ClientStatus"]), "complete" | "failed" | "lost");
            if !allocs.as_array().into_iter().flatten().all(has_ended) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn readable(line: &str) -> anyhow::Result<Vec<String>> {
    Ok(event::readable(&serde_json::from_str(line)?))
}

fn print(line: &str) -> anyhow::Result<()> {
    readable(line)?.iter().try_for_each(|text| say(text))
}

/// Prints a line. A closed pipe is an error here and not the end of the process: the jobs and the agent end first.
fn say(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A job that is registered before the node is ready would only be placed a moment later, but its first evaluation
/// would look failed.
async fn wait_for_node(api: &Client) -> anyhow::Result<()> {
    let mut index = 0;
    loop {
        let nodes = api.open(&format!("/v1/nodes?index={index}&wait=10s")).await?;
        index =
            nodes.headers().get("x-nomad-index").and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(index);
        let nodes: Value = nodes.json().await?;
        if nodes.as_array().into_iter().flatten().any(|node| text(&node["Status"]) == "ready") {
            return Ok(());
        }
    }
}

/// The usual port if nobody has it.
fn free_port(usual: u16) -> u16 {
    if std::net::TcpListener::bind(("127.0.0.1", usual)).is_ok() { usual } else { 0 }
}
