//! Stories of a lost event history.

use std::sync::Arc;

use songline_api::Proposal;
use songline_api::event::{Dialect, Format, Interest, Start};
use songline_commands::{Actor, UpsertNodePools};
use songline_model::NodePool;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::server::Core;

async fn start(dir: &std::path::Path) -> anyhow::Result<Agent> {
    let server = AgentConfig::dev().server;
    Agent::start(AgentConfig {
        data_dir: Some(dir.to_owned()),
        http_port: 0,
        rpc_port: 0,
        serf_port: 0,
        server,
        client: None,
        ..AgentConfig::dev()
    })
    .await
}

fn core(agent: &Agent) -> &Arc<Core> {
    agent.server().expect("a dev agent has a server")
}

async fn write(agent: &Agent, name: &str) -> anyhow::Result<u64> {
    let command = UpsertNodePools { node_pools: vec![NodePool { name: name.into(), ..NodePool::default() }] };
    let proposal = Proposal { actor: Actor::Anonymous, cause: None, idempotency: None, command: command.into() };
    Ok(core(agent).write(proposal).await?.index)
}

/// Everything up to the entry at `last`, as a full stream has it, and whether there was a gap.
async fn read(agent: &Agent, last: u64) -> (String, bool) {
    let interest = Interest::parse("*", std::iter::empty()).expect("is valid");
    let subscription = core(agent).events().subscribe(interest, Format::Json, Dialect::Full, Start::After(0));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let (mut text, end) = (String::new(), format!("\"Index\":{last}}}\n"));
    while !text.contains(&end) {
        text.push_str(&String::from_utf8_lossy(&stream.next().await.expect("goes on").expect("a piece")));
    }
    text.truncate(text.find(&end).expect("it was found above") + end.len());
    // Marks of having caught up come where the reader happened to be faster than the writer.
    let events: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"Events\"")).collect();
    (events.join("\n"), text.contains("\"Gap\""))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_history_is_filled_anew_from_the_log() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let agent = start(dir.path()).await?;
    for n in 0..50 {
        write(&agent, &format!("before-{n}")).await?;
    }
    // Without a checkpoint the log is replayed as a whole, and nothing would be missing.
    core(&agent).log().checkpoint_now().await?;
    let last = write(&agent, "after").await?;
    let (told, gap) = read(&agent, last).await;
    assert!(!gap && told.contains("before-0"), "{told}");
    agent.stop().await;
    std::fs::remove_dir_all(dir.path().join("server/events"))?;

    let agent = start(dir.path()).await?;
    while core(&agent).history.is_lost() {
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&agent, last).await, (told.clone(), false));
    agent.stop().await;

    let agent = start(dir.path()).await?;
    assert!(!core(&agent).history.is_lost());
    assert_eq!(read(&agent, last).await, (told, false));
    agent.stop().await;
    Ok(())
}
