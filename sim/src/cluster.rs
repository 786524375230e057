//! A server of this process with its HTTP port, and simulated nodes in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use songline::agent::Agent;
use songline::config::AgentConfig;
use songline::rpc::RpcError;
use songline_server::Core;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::node::SimNode;

/// Number of nodes that join at a time.
const JOINING_MAX: usize = 64;

type Joining = JoinSet<Result<JoinHandle<()>, RpcError>>;

/// A running server and its simulated nodes.
pub struct Cluster {
    agent: Agent,
    config: AgentConfig,
    stop: CancellationToken,
    _dir: tempfile::TempDir,
}

impl Cluster {
    /// Starts a server in a temporary directory and lets `nodes` nodes join it.
    pub async fn start(nodes: usize) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut config = AgentConfig {
            http_port: 0,
            rpc_port: 0,
            serf_port: 0,
            data_dir: Some(dir.path().to_owned()),
            http_max_conns_per_client: 100_000,
            ..AgentConfig::dev()
        };
        config.client = None;
        let agent = Agent::start(config.clone()).await?;
        let stop = CancellationToken::new();
        let server: Arc<Core> = Arc::clone(agent.server().ok_or_else(|| anyhow::anyhow!("the agent has no server"))?);
        // Many join at once, because each waits for two durable writes.
        let mut joining = Joining::new();
        for n in 0..nodes {
            let node = SimNode::new(Arc::clone(&server), n, stop.clone());
            joining.spawn(async move { node.join().await.map(|()| tokio::spawn(node.run())) });
            if joining.len() >= JOINING_MAX {
                joined(&mut joining).await?;
            }
        }
        while !joining.is_empty() {
            joined(&mut joining).await?;
        }
        Ok(Self { agent, config, stop, _dir: dir })
    }

    /// Stops nodes and server, and starts the server again on its data, without nodes. Also the time that the stop
    /// took: it writes what the derived stores lag behind.
    pub async fn restart(self) -> anyhow::Result<(Self, Duration)> {
        let stopping = Instant::now();
        self.stop.cancel();
        self.agent.stop().await;
        let stopped = stopping.elapsed();
        let agent = Agent::start(self.config.clone()).await?;
        Ok((Self { agent, stop: CancellationToken::new(), ..self }, stopped))
    }

    /// `http://host:port` of the server.
    pub fn http_addr(&self) -> String {
        self.agent.http_addr()
    }

    /// The server itself.
    pub fn server(&self) -> Option<&Arc<Core>> {
        self.agent.server()
    }

    /// Stops nodes and server.
    pub async fn stop(self) {
        self.stop.cancel();
        self.agent.stop().await;
    }
}

/// Waits until one more node has joined.
async fn joined(joining: &mut Joining) -> anyhow::Result<()> {
    match joining.join_next().await {
        Some(joined) => joined?.map(drop).map_err(Into::into),
        None => Ok(()),
    }
}
