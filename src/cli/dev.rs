//! `dev FILE`: an agent for this machine, one job file, and its change events in readable lines until Ctrl-C.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use songline_cli::client::text;
use songline_cli::{Client, event, jobfile};

use super::agent;
use crate::agent::Agent;
use crate::config::AgentConfig;

/// How long the job's allocations may take to end after Ctrl-C.
const STOP_WAIT: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct Options {
    /// Port of HTTP; a free one if 4646 is taken.
    #[arg(long)]
    http_port: Option<u16>,
    /// The job file, HCL or JSON.
    file: PathBuf,
}

pub(crate) fn run(options: Options) -> anyhow::Result<()> {
    let body = jobfile::registration(&options.file.to_string_lossy())?;
    let mut config = AgentConfig { log_level: "warn".into(), ..AgentConfig::dev() };
    config.http_port = options.http_port.unwrap_or_else(|| free_port(config.http_port));
    crate::logging::start(&config);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(play(config, body))
}

async fn play(config: AgentConfig, body: serde_json::Value) -> anyhow::Result<()> {
    let agent = Agent::start(config).await?;
    println!(
        "==> agent at {} (same API and tools: NOMAD_ADDR={0}); Ctrl-C stops the job and the agent",
        agent.http_addr()
    );
    let outcome = watch(&agent, &body).await;
    agent.stop().await;
    println!("==> stopped");
    outcome
}

async fn watch(agent: &Agent, body: &serde_json::Value) -> anyhow::Result<()> {
    let api = Client::at(&agent.http_addr()).map_err(anyhow::Error::msg)?;
    let mut lines = event::follow(&api, "after_index=0").await?;
    wait_for_node(&api).await?;
    let answer = api.put("/v1/jobs", body).await?;
    let job = text(&body["Job"]["ID"]).to_owned();
    println!("==> job {job:?} registered at index {}", answer["JobModifyIndex"]);
    if !text(&answer["Warnings"]).is_empty() {
        println!("{}", text(&answer["Warnings"]));
    }
    let interrupted = agent::stop_signal();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            line = lines.next() => match line? {
                Some(line) => print(&line)?,
                None => anyhow::bail!("the event stream ended"),
            },
            signal = &mut interrupted => {
                println!("==> caught {}: stopping job {job:?}", signal?);
                break;
            }
        }
    }
    api.delete(&format!("/v1/job/{job}")).await?;
    let ended = async {
        while !all_ended(&api, &job).await? {
            // Only news can have ended something.
            match lines.next().await? {
                Some(line) => print(&line)?,
                None => break,
            }
        }
        anyhow::Ok(())
    };
    if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
        println!("==> not everything ended in time; the agent ends the rest");
    }
    Ok(())
}

fn print(line: &str) -> anyhow::Result<()> {
    for text in event::readable(&serde_json::from_str(line)?) {
        println!("{text}");
    }
    Ok(())
}

/// A job that is registered before the node is ready would only be placed a moment later, but its first evaluation
/// would look failed.
async fn wait_for_node(api: &Client) -> anyhow::Result<()> {
    let mut index = 0;
    loop {
        let nodes = api.open(&format!("/v1/nodes?index={index}&wait=10s")).await?;
        index =
            nodes.headers().get("x-nomad-index").and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(index);
        let nodes: serde_json::Value = nodes.json().await?;
        if nodes.as_array().into_iter().flatten().any(|node| text(&node["Status"]) == "ready") {
            return Ok(());
        }
    }
}

async fn all_ended(api: &Client, job: &str) -> anyhow::Result<bool> {
    let allocs = api.get(&format!("/v1/job/{job}/allocations")).await?;
    Ok(allocs
        .as_array()
        .into_iter()
        .flatten()
        .all(|alloc| matches!(text(&alloc["ClientStatus"]), "complete" | "failed" | "lost")))
}

/// The usual port if nobody has it.
fn free_port(usual: u16) -> u16 {
    if std::net::TcpListener::bind(("127.0.0.1", usual)).is_ok() { usual } else { 0 }
}
