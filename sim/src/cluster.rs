//! A server of this process with its HTTP port, and simulated nodes in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use songline::agent::Agent;
use songline::config::AgentConfig;
use songline_server::Core;

use crate::fleet::{Behaviour, Fleet, FleetOptions, InProcess, Profile};

/// Longest time until all nodes have joined.
const JOIN_WITHIN: Duration = Duration::from_mins(10);

/// A running server and its simulated nodes.
pub struct Cluster {
    agent: Agent,
    config: AgentConfig,
    fleet: Option<Fleet<InProcess<Core>>>,
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
        let server: Arc<Core> = Arc::clone(agent.server().ok_or_else(|| anyhow::anyhow!("the agent has no server"))?);
        let options =
            FleetOptions { count: nodes, start_rate: 0, profile: Profile::default(), behaviour: Behaviour::at_once() };
        let fleet = Fleet::start(options, InProcess(server));
        fleet.all_ready(JOIN_WITHIN).await?;
        Ok(Self { agent, config, fleet: Some(fleet), _dir: dir })
    }

    /// Stops nodes and server, and starts the server again on its data, without nodes. Also the time that the stop
    /// took: it writes what the derived stores lag behind.
    pub async fn restart(self) -> anyhow::Result<(Self, Duration)> {
        let stopping = Instant::now();
        drop(self.fleet);
        self.agent.stop().await;
        let stopped = stopping.elapsed();
        let agent = Agent::start(self.config.clone()).await?;
        Ok((Self { agent, config: self.config, fleet: None, _dir: self._dir }, stopped))
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
        drop(self.fleet);
        self.agent.stop().await;
    }
}
