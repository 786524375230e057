//! How the servers of a cluster fare, and what follows: which of them may vote from now on, and which are given up.
//!
//! A machine without a clock: the shell looks at consensus now and then, and carries the effects out. It keeps nothing that must survive;
//! a new leader finds out anew since when everybody is well. How votes are counted is the log's business.

use std::collections::BTreeMap;

use songline_model::{AutopilotConfig, Dur, Time};

/// Consensus is heard of this often at least while all is well, so less silence than twice that means nothing, whatever is configured.
const SILENCE_MIN: Dur = Dur::from_millis(600);
/// A server that was silent for so long is dead.
const DEAD_AFTER: Dur = Dur::from_secs(30);

/// Number of a server within its cluster, as the log has it.
pub type ServerId = u64;

/// Another server, as the leader sees it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Whether it votes.
    pub voter: bool,
    /// Whether it is to vote at all once it is well; otherwise it only follows.
    pub wants_vote: bool,
    /// Since when it was not heard of.
    pub silence: Dur,
    /// The last entry that it is known to have.
    pub matched: u64,
}

/// What the leader sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The clock.
    pub now: Time,
    /// The leader itself.
    pub leader: ServerId,
    /// The last entry of its log.
    pub last_index: u64,
    /// All others.
    pub peers: BTreeMap<ServerId, Peer>,
    /// So many servers the cluster was meant to have; 0 when nobody said.
    pub expected: usize,
}

/// What is to be done. One at a time: the membership changes in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It has been well for long enough to vote.
    Promote(ServerId),
    /// It is dead, and the cluster has enough servers without it.
    Remove(ServerId),
}

/// How one server fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wellness {
    /// Whether it votes.
    pub voter: bool,
    /// Whether it is well.
    pub healthy: bool,
    /// Whether it answers at all; `false`: it counts as dead.
    pub alive: bool,
    /// Since when it is as well as it is.
    pub since: Time,
    /// Since when it was not heard of.
    pub silence: Dur,
    /// The last entry that it is known to have.
    pub matched: u64,
}

/// How the cluster fares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Each server, the leader among them.
    pub servers: BTreeMap<ServerId, Wellness>,
}

impl Health {
    /// Whether all servers are well.
    pub fn is_healthy(&self) -> bool {
        self.servers.values().all(|server| server.healthy)
    }

    /// How many voters may fail before the cluster stands still.
    pub fn failure_tolerance(&self) -> usize {
        let voters = self.servers.values().filter(|server| server.voter);
        let (all, healthy) = voters.fold((0, 0), |(all, healthy), server| (all + 1, healthy + usize::from(server.healthy)));
        healthy.saturating_sub(quorum(all))
    }
}

/// Follows how the servers fare.
#[derive(Debug, Default)]
pub struct Autopilot {
    health: Health,
    /// The last entry of the leader's log at the look before: who has that is not behind, only on the way.
    index_before: Option<u64>,
}

impl Autopilot {
    /// Knows nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the servers fared at the last look.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Takes a look, and says what is to be done.
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
            self.health
                .servers
                .get(id)
                .is_some_and(|server| server.healthy && look.now.since(server.since) >= config.server_stabilization_time)
        };
        let candidates = look.peers.iter().filter(|(_, peer)| !peer.voter && peer.wants_vote);
        candidates.map(|(id, _)| *id).find(is_stable).map(Effect::Promote)
    }

    /// A dead voter goes only while a majority of all voters lives, so that the step can be decided; and only when as many live servers
    /// remain as there were meant to be: until one has come in its place it may come back.
    fn to_remove(&self, look: &Look, config: &AutopilotConfig) -> Option<Effect> {
        if !config.cleanup_dead_servers {
            return None;
        }
        let servers = &self.health.servers;
        let dead = |voter: bool| servers.iter().find(|(_, server)| !server.alive && server.voter == voter).map(|(id, _)| *id);
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
        // Nobody counts on one that does not vote. It may join anew.
        dead(false).map(Effect::Remove)
    }
}

/// How many of so many voters decide.
fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests;
