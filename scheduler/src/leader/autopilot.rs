//! Autopilot: follows the health of the cluster's servers, promotes healthy ones to voters and removes dead ones.
//!
//! A machine without a clock: the shell passes a look at consensus now and then, and carries the effects out. The
//! machine keeps nothing that must survive; a new leader measures anew how long each server has been healthy. Counting
//! votes is the log's business.

use std::collections::BTreeMap;

use songline_model::{AutopilotConfig, Dur, Time};

/// Least silence that counts as unhealthy, even if less is configured: twice the longest interval at which a healthy
/// server is heard of.
const SILENCE_MIN: Dur = Dur::from_millis(600);
/// Silence after which a server counts as dead.
const DEAD_AFTER: Dur = Dur::from_secs(30);

/// Number of a server within its cluster, as the log has it.
pub type ServerId = u64;

/// Another server, as the leader sees it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Whether the server votes.
    pub voter: bool,
    /// Whether the server is to vote once it is healthy; otherwise it stays a non-voting follower.
    pub wants_vote: bool,
    /// Time since the last contact.
    pub silence: Dur,
    /// Raft index of the last entry that the server is known to have.
    pub matched: u64,
}

/// The leader's view of all servers at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Time of the look.
    pub now: Time,
    /// The leader's own number.
    pub leader: ServerId,
    /// Raft index of the last entry of the leader's log.
    pub last_index: u64,
    /// All other servers.
    pub peers: BTreeMap<ServerId, Peer>,
    /// Configured number of servers of the cluster; 0 if not configured.
    pub expected: usize,
}

/// A change of membership. Only one at a time, because membership changes in single steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Make a server a voter that has been healthy for long enough.
    Promote(ServerId),
    /// Remove a dead server that the cluster can do without.
    Remove(ServerId),
}

/// Health of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wellness {
    /// Whether the server votes.
    pub voter: bool,
    /// Whether the server answers in time and is not too far behind.
    pub healthy: bool,
    /// Whether the server counts as alive: heard of within the last 30 seconds.
    pub alive: bool,
    /// Time since which `healthy` has its value.
    pub since: Time,
    /// Time since the last contact.
    pub silence: Dur,
    /// Raft index of the last entry that the server is known to have.
    pub matched: u64,
}

/// Health of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Every server, including the leader.
    pub servers: BTreeMap<ServerId, Wellness>,
}

impl Health {
    /// Whether all servers are healthy.
    pub fn is_healthy(&self) -> bool {
        self.servers.values().all(|server| server.healthy)
    }

    /// Number of voters that may fail before the cluster loses its quorum.
    pub fn failure_tolerance(&self) -> usize {
        let voters = self.servers.values().filter(|server| server.voter);
        let (all, healthy) =
            voters.fold((0, 0), |(all, healthy), server| (all + 1, healthy + usize::from(server.healthy)));
        healthy.saturating_sub(quorum(all))
    }
}

/// Follows the servers' health and decides on changes of membership.
#[derive(Debug, Default)]
pub struct Autopilot {
    health: Health,
    /// Last raft index of the leader's log at the previous look. Followers are measured against it: newer entries may
    /// still be on their way.
    index_before: Option<u64>,
}

impl Autopilot {
    /// An autopilot that has seen no server yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Health at the last look.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Takes a look, and returns the change of membership to make, if any.
    pub fn on_look(&mut self, look: &Look, config: &AutopilotConfig) -> Option<Effect> {
        self.note(look, config);
        self.to_promote(look, config).or_else(|| self.to_remove(look, config))
    }

    fn note(&mut self, look: &Look, config: &AutopilotConfig) {
        let expected = self.index_before.replace(look.last_index).unwrap_or(look.last_index);
        let silence_max = Dur(config.last_contact_threshold.nanos().max(SILENCE_MIN.nanos()));
        let before = std::mem::take(&mut self.health.servers);
        let since = |id: ServerId, healthy: bool| match before.get(&id) {
            Some(known) if known.healthy == healthy => known.since,
            Some(_) | None => look.now,
        };
        let leader = Wellness {
            voter: true,
            healthy: true,
            alive: true,
            since: since(look.leader, true),
            silence: Dur::ZERO,
            matched: look.last_index,
        };
        self.health.servers.insert(look.leader, leader);
        for (id, peer) in &look.peers {
            let behind = expected.saturating_sub(peer.matched);
            let healthy = peer.silence <= silence_max && behind <= config.max_trailing_logs;
            let wellness = Wellness {
                voter: peer.voter,
                healthy,
                alive: peer.silence < DEAD_AFTER,
                since: since(*id, healthy),
                silence: peer.silence,
                matched: peer.matched,
            };
            self.health.servers.insert(*id, wellness);
        }
    }

    fn to_promote(&self, look: &Look, config: &AutopilotConfig) -> Option<Effect> {
        let is_stable = |id: &ServerId| {
            self.health.servers.get(id).is_some_and(|server| {
                server.healthy && look.now.since(server.since) >= config.server_stabilization_time
            })
        };
        let candidates = look.peers.iter().filter(|(_, peer)| !peer.voter && peer.wants_vote);
        candidates.map(|(id, _)| *id).find(is_stable).map(Effect::Promote)
    }

    /// Chooses a dead server to remove. A dead voter is removed only while a majority of all voters is alive, so that
    /// the change can be committed, and only while the configured number of servers is alive without it. Until a
    /// replacement has joined, the dead server may come back.
    fn to_remove(&self, look: &Look, config: &AutopilotConfig) -> Option<Effect> {
        if !config.cleanup_dead_servers {
            return None;
        }
        let servers = &self.health.servers;
        let dead =
            |voter: bool| servers.iter().find(|(_, server)| !server.alive && server.voter == voter).map(|(id, _)| *id);
        let voters = servers.values().filter(|server| server.voter).count();
        let living_voters = servers.values().filter(|server| server.voter && server.alive).count();
        let living = servers.values().filter(|server| server.alive).count();
        if let Some(id) = dead(true) {
            let least = usize::try_from(config.min_quorum).unwrap_or(usize::MAX).max(look.expected).max(1);
            let left = u64::try_from(voters - 1).unwrap_or(u64::MAX);
            if living >= least && living_voters >= quorum(voters) && left >= config.min_quorum {
                return Some(Effect::Remove(id));
            }
        }
        // A dead non-voter can go at any time: no quorum counts on it, and it may join again.
        dead(false).map(Effect::Remove)
    }
}

/// Number of voters that form a quorum.
fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests;
