//! Operators' view of the cluster and their requests: members, health, meeting a server, removing one, leadership
//! transfer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use songline_api::{ClusterHealth, Member, MemberHealth, ProposeError};
use songline_log::MemberError;
use tokio::time::Instant;

use super::peers::Topic;
use super::{
    Core, GREET_EVERY, GREET_WITHIN, Greeting, JOIN_WITHIN, LEADERLESS_MAX, ServerSeen, decode, encode, id_of, id_text,
};
use crate::trust;

/// Number of missed greetings after which this server reports another one as failed.
const GREETINGS_MISSED_MAX: u32 = 5;

impl Core {
    /// Every server of the cluster, in the order of their ids.
    pub(crate) fn cluster_members(&self) -> Vec<Member> {
        let mut members: Vec<Member> = self.servers_seen().into_iter().map(|seen| self.member(seen)).collect();
        members.sort_by(|a, b| a.id.cmp(&b.id));
        members
    }

    pub(crate) fn member(&self, seen: ServerSeen) -> Member {
        let own = seen.id == self.connections.cluster.id;
        // The log may still have an earlier address of this server.
        let address = if own { self.connections.cluster.address.clone() } else { seen.address.clone() };
        Member {
            id: id_text(seen.id),
            tags: self.server_tags(&seen, &address),
            name: seen.name,
            address,
            serf_port: seen.serf_port,
            version: seen.version,
            alive: seen.heard.is_some_and(|heard| heard < GREET_EVERY * GREETINGS_MISSED_MAX),
            voter: seen.voter,
            leader: seen.leader,
            own,
        }
    }

    /// Tags of this server's member entry.
    pub(crate) fn own_tags(&self) -> BTreeMap<String, String> {
        let own = self.servers_seen().into_iter().find(|seen| seen.id == self.connections.cluster.id);
        // Without a cluster this server has no role in one yet.
        let seen = own.unwrap_or_else(|| ServerSeen {
            id: self.connections.cluster.id,
            name: self.facts.info.name.clone(),
            address: self.connections.cluster.address.clone(),
            region: self.facts.info.region.clone(),
            datacenter: self.facts.info.datacenter.clone(),
            version: self.facts.info.version.clone(),
            serf_port: self.facts.info.serf_port,
            voter: !self.facts.config.non_voting_server,
            leader: false,
            heard: Some(Duration::ZERO),
        });
        self.server_tags(&seen, &self.connections.cluster.address)
    }

    fn server_tags(&self, seen: &ServerSeen, address: &str) -> BTreeMap<String, String> {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let expect = self.facts.config.expected().max(1);
        let mut tags = vec![
            ("build", seen.version.clone()),
            ("dc", seen.datacenter.clone()),
            ("expect", expect.to_string()),
            ("id", id_text(seen.id)),
            ("port", port.to_owned()),
            ("raft_vsn", "3".to_owned()),
            ("region", seen.region.clone()),
            ("role", "nomad".to_owned()),
            ("rpc_addr", host.to_owned()),
            ("vsn", "1".to_owned()),
        ];
        if expect == 1 {
            tags.push(("bootstrap", "1".to_owned()));
        }
        if !seen.voter {
            tags.push(("nonvoter", "1".to_owned()));
        }
        tags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Health of the servers, as the leader saw it a moment ago; unknown on other servers.
    pub(crate) fn servers_health(&self) -> ClusterHealth {
        let health = self.leader.server_health.lock().clone();
        let term = self.log().leadership().borrow().term;
        let base = self.view().base();
        // Health that was recorded in an earlier term of this server is outdated.
        let broken = self.disk_trouble().is_some();
        let progress = self.log().peers();
        let servers = health.servers.iter().map(|(id, server)| {
            let position = progress.get(id).and_then(|peer| peer.matched);
            let health = MemberHealth {
                healthy: server.healthy && !(broken && *id == self.connections.cluster.id),
                last_contact: server.silence.to_std(),
                last_term: if *id == self.connections.cluster.id {
                    term
                } else {
                    position.map_or(0, |position| position.term)
                },
                last_index: server.matched + base,
                stable_since: server.since,
            };
            (id_text(*id), health)
        });
        ClusterHealth {
            healthy: !health.servers.is_empty() && health.is_healthy() && !broken,
            failure_tolerance: u64::try_from(health.failure_tolerance()).unwrap_or(u64::MAX),
            servers: servers.collect(),
        }
    }

    /// Greets the server at an address and records its answer. A server of this region that has no cluster is a member
    /// when this returns, unless it takes too long; a server of another region is known.
    pub(crate) async fn meet(&self, address: &str) -> Result<(), String> {
        let theirs = self.greet_any_region(address).await?;
        if theirs.region != self.facts.info.region {
            self.note_region(theirs, true);
            return Ok(());
        }
        self.trust_same_machine(&theirs.address);
        let asked =
            self.connections.cluster.peers.ask(address, Topic::Greeting, &encode(&self.greeting()), GREET_WITHIN).await;
        let theirs: Greeting = decode(&asked.map_err(|error| error.to_string())?)?;
        let ours = self.log().members().borrow().addresses.clone();
        let strangers =
            !ours.is_empty() && !theirs.members.is_empty() && !theirs.members.keys().any(|id| ours.contains_key(id));
        if strangers {
            return Err("both servers belong to a cluster, and not to the same".to_owned());
        }
        self.come_back();
        let (id, joins_us) = (theirs.id, theirs.members.is_empty() && !ours.is_empty());
        self.connections.cluster.note(theirs, true);
        if joins_us {
            let mut members = self.log().members();
            let member = members.wait_for(|members| members.addresses.contains_key(&id));
            // It goes on trying by itself.
            let _ = tokio::time::timeout(JOIN_WITHIN, member).await;
        }
        Ok(())
    }

    /// Accepts servers of this machine, without proof, because an operator has named one: only if all of this server's
    /// cluster are on this machine.
    fn trust_same_machine(&self, address: &str) {
        let mut addresses = self.other_servers();
        addresses.extend([address.to_owned(), self.connections.cluster.address.clone()]);
        if addresses.iter().all(|address| trust::is_ip_of_this_machine(address)) {
            self.connections.trust.take_same_machine();
        }
    }

    /// Removes a server from the cluster. A live one comes back, some seconds later.
    pub(crate) async fn remove_server(&self, id: &str) -> Result<(), ProposeError> {
        let id = id_of(id).ok_or_else(|| ProposeError::Unavailable(format!("{id:?} is no server's id")))?;
        {
            let mut removed = self.connections.cluster.removed.lock();
            removed.retain(|_, at| at.elapsed() < LEADERLESS_MAX);
            removed.insert(id, Instant::now());
        }
        self.log().remove(id).await.map_err(member_error)
    }

    /// Transfers leadership to another server.
    pub(crate) async fn hand_over(&self, id: Option<&str>) -> Result<(), ProposeError> {
        let to = match id {
            None => None,
            Some(text) => {
                Some(id_of(text).ok_or_else(|| ProposeError::Unavailable(format!("{text:?} is no server's id")))?)
            }
        };
        self.log().transfer_leadership(to).await.map_err(member_error)
    }

    /// Addresses of all members except this server.
    pub(crate) fn other_servers(&self) -> Vec<String> {
        let members = self.log().members();
        let members = members.borrow();
        members
            .addresses
            .iter()
            .filter(|(id, _)| **id != self.connections.cluster.id)
            .map(|(_, address)| address.clone())
            .collect()
    }

    /// Asks all other servers the same question, and returns the answers that arrive in time.
    pub(crate) async fn ask_all(&self, topic: Topic, question: &[u8], within: Duration) -> Vec<bytes::Bytes> {
        let addresses = self.other_servers();
        let asked =
            addresses.iter().map(|address| self.connections.cluster.peers.ask(address, topic, question, within));
        let answers = futures_util::future::join_all(asked).await;
        let told = answers.into_iter().zip(&addresses).filter_map(|(answer, address)| match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!(%address, ?topic, %error, "a server has no answer");
                None
            }
        });
        told.collect()
    }

    /// Asks all other voters the same question, and returns as soon as a majority, including this server, has
    /// answered. False when a majority can no longer be reached. The question is sent to all voters in any case.
    pub(crate) async fn majority_answers(&self, topic: Topic, question: &[u8], within: Duration) -> bool {
        let members = self.log().members().borrow().clone();
        let mut answered = BTreeSet::from([self.connections.cluster.id]);
        let voters: BTreeSet<_> =
            members.voters.iter().flatten().copied().filter(|id| *id != self.connections.cluster.id).collect();
        let others = voters.into_iter().filter_map(|id| Some((id, members.addresses.get(&id)?)));
        let mut asked: FuturesUnordered<_> = others
            .map(|(id, address)| async move {
                (id, self.connections.cluster.peers.ask(address, topic, question, within).await)
            })
            .collect();
        while !members.has_majority(&answered) {
            match asked.next().await {
                Some((id, Ok(_))) => drop(answered.insert(id)),
                Some((id, Err(error))) => tracing::debug!(server = id, ?topic, %error, "a server has no answer"),
                None => return false,
            }
        }
        true
    }
}

fn member_error(error: MemberError) -> ProposeError {
    match error {
        MemberError::NotLeader => ProposeError::NoLeader,
        MemberError::Failed(why) => ProposeError::Unavailable(why),
    }
}
