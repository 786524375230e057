//! Leaving a cluster gracefully: transfer leadership, cease to be a member, and do not rejoin unasked.
//! [`super::membership`] removes servers that do not answer.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use songline_log::NodeId as ServerId;

use super::peers::Topic;
use super::{Core, JOIN_WITHIN, decode, encode};

/// Timeout of the leadership transfer of a leaving server.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(5);
/// Timeout of the whole leave: an operator who stops a server wants it to stop.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);
/// Delay before another attempt.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// File that marks the server of this directory as having left its cluster.
const LEFT: &str = "left";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeaveRequest {
    id: ServerId,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum LeaveAnswer {
    /// The server is no longer a member.
    Goodbye,
    /// Only the leader can decide; this is its address.
    Ask(String),
}

impl Core {
    /// Leaves the cluster: another server leads, and the others continue without this one. Steps that miss their
    /// timeout are skipped: autopilot of the others removes the server once it does not answer.
    pub fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let others = self.other_servers();
            if others.is_empty() {
                return;
            }
            self.connections.cluster.leaving.cancel();
            match tokio::time::timeout(LEAVE_WITHIN, self.leave_now()).await {
                Ok(()) => tracing::info!("this server has left its cluster"),
                Err(_) => tracing::warn!("this server could not leave its cluster in time, and ends all the same"),
            }
        })
    }

    async fn leave_now(&self) {
        if self.log().is_leader() {
            if let Err(error) = self.hand_over(None).await {
                tracing::warn!(%error, "handing leadership over before leaving");
            }
            let mut leadership = self.log().leadership();
            let handed_over = leadership.wait_for(|now| !now.is_leader && now.leader.is_some());
            // On a timeout or a closed log, the next step reports the reason.
            let _ = tokio::time::timeout(HAND_OVER_WITHIN, handed_over).await;
        }
        while let Err(why) = self.say_goodbye().await {
            tracing::debug!(why, "leaving");
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        if let Err(error) = self.facts.disk.put(&self.facts.dir.join(LEFT), &[], false) {
            tracing::warn!(%error, "writing that this server has left: it may come back by itself");
        }
    }

    async fn say_goodbye(&self) -> Result<(), String> {
        let id = self.connections.cluster.id();
        if self.log().is_leader() {
            return self.log().remove(id).await.map_err(|error| error.to_string());
        }
        let mut address = self.leader_address().ok_or("no server leads")?;
        // A former leader may name its successor. A longer chain of referrals means that no server knows the leader.
        for _ in 0..3 {
            let asked = self
                .connections
                .cluster
                .peers
                .ask(&address, Topic::Leave, &encode(&LeaveRequest { id }), JOIN_WITHIN)
                .await;
            match decode(&asked.map_err(|error| error.to_string())?)? {
                LeaveAnswer::Goodbye => return Ok(()),
                LeaveAnswer::Ask(leader) => address = leader,
            }
        }
        Err("no server knows the leader".into())
    }

    /// Removes a server that asks to leave.
    pub(super) async fn let_go(&self, request: LeaveRequest) -> Result<LeaveAnswer, String> {
        if !self.log().is_leader() {
            return self.leader_address().map(LeaveAnswer::Ask).ok_or_else(|| "No cluster leader".into());
        }
        let listed = self.log().members().borrow().addresses.contains_key(&request.id);
        if listed {
            self.log().remove(request.id).await.map_err(|error| error.to_string())?;
            tracing::info!(id = request.id, "a server left");
        }
        Ok(LeaveAnswer::Goodbye)
    }

    /// Whether this server stays out of the cluster that it has left until an operator asks it to rejoin. Configured
    /// servers to join, or `rejoin_after_leave`, count as that request.
    pub(super) fn stays_away(&self) -> bool {
        let left = self.has_left();
        if left && (self.facts.config.rejoin_after_leave || !self.facts.config.join.addresses().is_empty()) {
            self.come_back();
            return false;
        }
        left
    }

    /// Whether this server has left its cluster and was not asked to rejoin.
    fn has_left(&self) -> bool {
        self.facts.disk.exists(&self.facts.dir.join(LEFT))
    }

    /// Deletes the mark that this server has left.
    pub(super) fn come_back(&self) {
        match self.facts.disk.remove(&self.facts.dir.join(LEFT)) {
            Ok(()) => tracing::info!("this server looks for the cluster that it had left"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "forgetting that this server has left its cluster"),
        }
    }
}

#[cfg(test)]
mod tests;
