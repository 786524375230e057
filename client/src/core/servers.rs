//! The order in which servers are asked. The shell makes the calls and pings.

use std::collections::BTreeSet;

use songline_model::{Dur, Str, Time};

use super::jitter::Jitter;

/// Shortest time between two rebalancings. Up to the same time is added at random, so that nodes do not all move at
/// once.
const REBALANCE_MIN: Dur = Dur::from_mins(5);
/// Largest rate of nodes that reconnect to one server because of rebalancing, per second.
const NODES_PER_SERVER_AND_SECOND: u64 = 64;

/// No server is known. Nodes that read exactly this text use a shorter delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no servers")]
pub struct NoServers;

/// The addresses of the servers, in the order in which they are asked.
#[derive(Debug)]
pub struct ServerList {
    order: Vec<Str>,
    nodes: u32,
    rebalance_at: Time,
    jitter: Jitter,
}

impl ServerList {
    /// The initial list of a node, in random order.
    pub fn new(servers: Vec<Str>, now: Time, jitter: Jitter) -> Self {
        let mut list = Self { order: Vec::new(), nodes: 0, rebalance_at: now, jitter };
        list.order = list.shuffled(servers);
        list.wait_anew(now);
        list
    }

    /// The server that is asked next.
    pub fn first(&self) -> Result<Str, NoServers> {
        self.order.first().cloned().ok_or(NoServers)
    }

    /// All servers, in the order in which they are asked.
    pub fn all(&self) -> &[Str] {
        &self.order
    }

    /// A server did not answer, or answered wrongly: the others move before it. A server that is no longer the first
    /// stays in its place, as several calls may fail on it at the same time.
    pub fn on_failed(&mut self, server: &str) {
        if self.order.len() > 1 && self.order[0] == server {
            self.order.rotate_left(1);
        }
    }

    /// A server sent the list of servers and the number of nodes. A set that is already known keeps its order, so
    /// that a node stays with its server; an empty list is an error and changes nothing in the order.
    pub fn on_told(&mut self, servers: Vec<Str>, nodes: u32) -> Result<(), NoServers> {
        self.nodes = nodes;
        self.replace(servers)
    }

    /// An operator set the list of servers.
    pub fn replace(&mut self, servers: Vec<Str>) -> Result<(), NoServers> {
        let set = |list: &[Str]| -> BTreeSet<Str> { list.iter().cloned().collect() };
        if servers.is_empty() {
            return Err(NoServers);
        }
        if set(&servers) != set(&self.order) {
            self.order = self.shuffled(servers);
        }
        Ok(())
    }

    /// Time at which [`Self::on_time`] is due.
    pub fn next_deadline(&self) -> Time {
        self.rebalance_at
    }

    /// Servers to ping, in this order, if rebalancing is due. The first one that answers has to be reported to
    /// [`Self::on_pinged`].
    pub fn on_time(&mut self, now: Time) -> Option<Vec<Str>> {
        if now < self.rebalance_at {
            return None;
        }
        self.wait_anew(now);
        let others = self.order.len() > 1;
        others.then(|| self.shuffled(self.order.clone()))
    }

    /// A server answered a ping: it is asked first from now on. A server that is no longer in the list is not added.
    pub fn on_pinged(&mut self, tried: Vec<Str>, server: &str) {
        let same = tried.len() == self.order.len() && tried.iter().all(|address| self.order.contains(address));
        if same {
            self.order = tried;
        }
        if let Some(at) = self.order.iter().position(|address| address == server) {
            self.order[..=at].rotate_right(1);
        }
    }

    fn wait_anew(&mut self, now: Time) {
        let met_per_second = NODES_PER_SERVER_AND_SECOND * self.order.len().max(1) as u64;
        let scaled = Dur::from_secs(i64::try_from(u64::from(self.nodes) / met_per_second).unwrap_or(i64::MAX));
        self.rebalance_at = now.plus(self.jitter.stretched(scaled.max(REBALANCE_MIN)));
    }

    /// The same addresses without duplicates, in a random order.
    fn shuffled(&mut self, mut servers: Vec<Str>) -> Vec<Str> {
        let mut seen = BTreeSet::new();
        servers.retain(|server| seen.insert(server.clone()));
        for last in (1..servers.len()).rev() {
            let at = usize::try_from(self.jitter.next_u64() % (last as u64 + 1)).unwrap_or(0);
            servers.swap(last, at);
        }
        servers
    }
}

#[cfg(test)]
mod tests;
