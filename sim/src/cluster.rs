//! A server of this process with its HTTP port, and simulated nodes in it.

use std::sync::Arc;

use songline::agent::Agent;
use songline::config::AgentConfig;
use songline_server::Core;
use tokio_util::sync::CancellationToken;

use crate::node::SimNode;

/// A running server and its simulated nodes.
pub struct Cluster {
    agent: Agent,
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
        let agent = Agent::start(config).await?;
        let stop = CancellationToken::new();
        let server: Arc<Core> = Arc::clone(agent.server().ok_or_else(|| anyhow::anyhow!("the agent has no server"))?);
        for n in 0..nodes {
            let node = SimNode::new(Arc::clone(&server), n, stop.clone());
            node.join().await?;
            tokio::spawn(node.run());
        }
        Ok(Self { agent, stop, _dir: dir })
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
