//! A cluster of servers in network namespaces, and queries to it as a whole. Not here: load, and the checks of its
//! results.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::http::Request;
use crate::net::Net;
use crate::server::Server;
use crate::switch::Faults;
use crate::wait::until;

/// Timeout of everything that must happen eventually. Far more than it should take: durations are printed, not
/// asserted.
pub const WITHIN: Duration = Duration::from_secs(60);

/// Servers and the network between them. Dropping it kills and removes them all.
pub struct Cluster {
    // Declared before the network: servers have to end before their namespaces are removed.
    pub servers: Vec<Server>,
    /// Agents without a server of their own.
    pub nodes: Vec<Server>,
    pub net: Net,
    _dir: tempfile::TempDir,
}

impl Cluster {
    /// Starts a cluster of `count` servers and waits for a leader. `more` is merged into the configuration of each
    /// server.
    pub fn start(count: usize, seed: u64, more: &Value) -> Result<Cluster> {
        Self::start_with(count, 0, seed, more, |_| Ok(()))
    }

    /// Like [`Self::start`], with `nodes` agents that are no servers; `prepare` gets the servers before any of them
    /// runs.
    pub fn start_with(
        count: usize,
        nodes: usize,
        seed: u64,
        more: &Value,
        prepare: impl FnOnce(&[Server]) -> Result<()>,
    ) -> Result<Cluster> {
        let dir = tempfile::tempdir().context("making a folder for a cluster")?;
        let net = Net::new(count + nodes, seed)?;
        let servers = (0..count).map(|n| Server::new(&net, n, count, dir.path(), more)).collect::<Result<Vec<_>>>()?;
        let nodes =
            (count..count + nodes).map(|n| Server::node(&net, n, count, dir.path())).collect::<Result<Vec<_>>>()?;
        prepare(&servers)?;
        let mut cluster = Cluster { servers, nodes, net, _dir: dir };
        for agent in cluster.servers.iter_mut().chain(&mut cluster.nodes) {
            agent.start(&cluster.net)?;
        }
        for agent in cluster.servers.iter_mut().chain(&mut cluster.nodes) {
            agent.answers()?;
        }
        cluster.leader()?;
        Ok(cluster)
    }

    /// The server that a majority names as the leader. Waits for it.
    pub fn leader(&self) -> Result<usize> {
        let mut found = None;
        let mut said = Vec::new();
        let agreed = until(Instant::now() + WITHIN, || {
            said = self.servers.iter().map(Server::leader).collect::<Vec<_>>();
            // A single server leads as soon as it names any leader.
            let alone = said.len() == 1 && said[0].is_some();
            found = self.servers.iter().position(|server| {
                said.iter().filter(|said| said.as_ref() == Some(&server.rpc)).count() * 2 > said.len() || alone
            });
            found.is_some()
        });
        ensure!(agreed, "no leader: the servers say {said:?}; {}", self.last_words());
        found.context("a leader was found")
    }

    /// HTTP addresses of the servers, for clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.http).collect()
    }

    /// All servers but `n`.
    pub fn others(&self, n: usize) -> Vec<usize> {
        (0..self.servers.len()).filter(|other| *other != n).collect()
    }

    /// Replaces the faults of the network between the servers.
    pub fn set(&self, faults: Faults) {
        self.net.set(faults);
    }

    pub fn start_again(&mut self, n: usize) -> Result<()> {
        self.servers[n].start(&self.net)?;
        self.servers[n].answers()
    }

    /// Writes through server `n`, repeats the write until it succeeds, and returns its index.
    pub fn write_through(&self, n: usize, name: &str) -> Result<u64> {
        let request = Request::new("PUT", "/v1/node/pools")
            .json(&serde_json::json!({"Name": name, "Description": "written last"}));
        let mut last = String::new();
        let mut index = None;
        let written = until(Instant::now() + WITHIN, || match self.servers[n].call(&request) {
            Ok(answer) if answer.head.status == 200 => {
                index = answer.index();
                true
            }
            Ok(answer) => {
                last = format!("{} {}", answer.head.status, answer.text());
                false
            }
            Err(error) => {
                last = format!("{error:#}");
                false
            }
        });
        ensure!(written, "no write through {}: {last}; {}", self.servers[n].name, self.last_words());
        index.context("a write answers its index")
    }

    /// Waits until every running server has applied the entry at `index`.
    pub fn all_reach(&mut self, index: u64) -> Result<()> {
        for server in &mut self.servers {
            if !server.is_running() {
                bail!("{} does not run: {}", server.name, server.last_lines());
            }
            let mut at = Err(anyhow::anyhow!("not asked"));
            let reached = until(Instant::now() + WITHIN, || {
                at = server.get("/v1/node/pools?stale").map(|(index, _)| index);
                at.as_ref().is_ok_and(|at| *at >= index)
            });
            ensure!(reached, "{} did not reach {index}, but {at:?}: {}", server.name, server.last_lines());
        }
        Ok(())
    }

    /// The last log lines of all servers.
    pub fn last_words(&self) -> String {
        let all: Vec<String> =
            self.servers.iter().map(|server| format!("{}: {}", server.name, server.last_lines())).collect();
        all.join("; ")
    }

    /// Stops all servers and compares the digests of the states that their logs give at `index`. Returns the common
    /// digest.
    pub fn digests_agree(&mut self, index: u64) -> Result<String> {
        for server in &mut self.servers {
            server.stop()?;
        }
        let mut digests = Vec::new();
        for server in &mut self.servers {
            digests.push(server.digest(index)?);
        }
        let first = digests.first().context("there are servers")?.clone();
        ensure!(digests.iter().all(|digest| *digest == first), "the servers' states differ: {digests:?}");
        Ok(first)
    }
}
