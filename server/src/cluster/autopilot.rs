//! Autopilot on the leader: feeds the autopilot machine with consensus progress of the servers and carries out its
//! decisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use songline_model::{AutopilotConfig, Dur};
use songline_scheduler::leader::autopilot::{Autopilot, Effect, Look, Peer};

use super::super::Core;
use super::super::leadership::LeadershipTerm;

/// Interval of autopilot's checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs a first check and then one each interval until the leadership term ends.
pub(crate) fn start(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let began = tokio::time::Instant::now();
    let mut autopilot = Autopilot::new();
    let mut effect = core.look_after_servers(&mut autopilot, began.elapsed());
    let core = Arc::clone(core);
    term.spawn(async move {
        loop {
            if let Some(effect) = effect {
                core.carry_out(effect).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            core.finish_member_change().await;
            effect = core.look_after_servers(&mut autopilot, began.elapsed());
        }
    });
}

impl Core {
    fn look_after_servers(&self, autopilot: &mut Autopilot, leading_for: Duration) -> Option<Effect> {
        let view = self.view();
        let config = view.autopilot_config().map_or_else(AutopilotConfig::initial, |row| AutopilotConfig::clone(row));
        let effect = autopilot.on_look(&self.look_at_servers(leading_for), &config);
        self.leader.server_health.lock().clone_from(autopilot.health());
        effect
    }

    /// Finishes a change of the voters that an earlier leader did not end, because it died or lost its leadership.
    async fn finish_member_change(&self) {
        let voters = self.log().members().borrow().voters.clone();
        if voters.len() <= 1 {
            return;
        }
        match self.log().finish_member_change().await {
            Ok(()) => tracing::info!(?voters, "a change of the voters that an earlier leader had begun is finished"),
            Err(error) => {
                tracing::warn!(%error, ?voters, "a change of the voters could not be finished; it is tried again")
            }
        }
    }

    /// Current progress of the servers. A server without contact in this term counts as silent since the term began
    /// (`leading_for`).
    fn look_at_servers(&self, leading_for: Duration) -> Look {
        let log = self.log();
        let members = log.members().borrow().clone();
        let progress = log.peers();
        let known = self.connections.cluster.known.lock();
        let others = members.addresses.keys().filter(|id| **id != self.connections.cluster.id);
        let peers: BTreeMap<_, _> = others
            .map(|id| {
                let seen = progress.get(id);
                let peer = Peer {
                    voter: members.voters.iter().any(|voters| voters.contains(id)),
                    // A server that was never heard of has not said whether it wants a vote.
                    wants_vote: known.get(id).is_some_and(|it| !it.greeting.non_voting),
                    silence: Dur::from(seen.and_then(|peer| peer.last_heard).unwrap_or(leading_for)),
                    matched: seen.and_then(|peer| peer.matched).map_or(0, |position| position.index),
                };
                (*id, peer)
            })
            .collect();
        let last_index = log.applied().map_or(0, |position| position.index) + log.unapplied();
        Look {
            now: self.pace(),
            leader: self.connections.cluster.id,
            last_index,
            peers,
            expected: self.facts.config.expected(),
        }
    }

    async fn carry_out(&self, effect: Effect) {
        let (id, done) = match effect {
            Effect::Promote(id) => (id, self.log().promote(id).await),
            Effect::Remove(id) => (id, self.log().remove(id).await),
        };
        let id = super::id_text(id);
        match (effect, done) {
            (Effect::Promote(_), Ok(())) => {
                tracing::info!(server = id, "a server has been well for long enough and votes from now on")
            }
            (Effect::Remove(_), Ok(())) => tracing::info!(server = id, "a dead server was taken out of the cluster"),
            (Effect::Promote(_) | Effect::Remove(_), Err(error)) => {
                tracing::warn!(server = id, ?effect, %error, "the membership could not be changed; it is tried again");
            }
        }
    }
}
