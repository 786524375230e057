//! Founding a cluster: servers that have found each other promise one of them the same set of members.

use std::collections::BTreeMap;

use songline_log::NodeId as ServerId;
use tokio::time::Instant;

use super::{GREET_WITHIN, LEADERLESS_MAX, PROMISE_HOLDS, Topic, encode};
use crate::Core;

impl Core {
    /// Founds a cluster once the expected number of servers have found each other, if this server has the lowest id
    /// of them. Every one of them promises first, so that two overlapping sets cannot both found a cluster.
    pub(super) async fn found_a_cluster(&self) {
        let expect = self.facts.config.expected();
        if expect == 0 || self.facts.config.non_voting_server {
            return;
        }
        let mut found = BTreeMap::from([(self.connections.cluster.id, self.connections.cluster.address.clone())]);
        {
            let known = self.connections.cluster.known.lock();
            let waiting = known.values().filter(|it| {
                let greeting = &it.greeting;
                it.heard.elapsed() < LEADERLESS_MAX
                    && !greeting.initialized
                    && !greeting.non_voting
                    && greeting.expect == expect
            });
            found.extend(waiting.map(|it| (it.greeting.id, it.greeting.address.clone())));
        }
        if found.len() < expect {
            return;
        }
        let set: BTreeMap<_, _> = found.into_iter().take(expect).collect();
        if set.keys().next() != Some(&self.connections.cluster.id) || self.promise(&set).is_err() {
            return;
        }
        let question = encode(&set);
        let others = set.iter().filter(|(id, _)| **id != self.connections.cluster.id);
        let promises = others
            .map(|(_, address)| self.connections.cluster.peers.ask(address, Topic::Promise, &question, GREET_WITHIN));
        for promise in futures_util::future::join_all(promises).await {
            if let Err(error) = promise {
                tracing::info!(%error, "a server does not found a cluster with this one now; it is tried again");
                return;
            }
        }
        tracing::info!(servers = set.len(), "founding a cluster");
        if let Err(error) = self.log().found(&set).await {
            tracing::error!(%error, "could not found a cluster");
        }
    }

    /// Promises to found a cluster with this set of servers. Fails while a promise to another set holds.
    pub(super) fn promise(&self, set: &BTreeMap<ServerId, String>) -> Result<(), String> {
        if set.get(&self.connections.cluster.id) != Some(&self.connections.cluster.address) {
            return Err("this server is not among them".into());
        }
        if !self.log().members().borrow().addresses.is_empty() {
            return Err("this server belongs to a cluster".into());
        }
        if set.len() != self.facts.config.expected() {
            return Err(format!("this server expects {} servers", self.facts.config.expected()));
        }
        let mut promised = self.connections.cluster.promised.lock();
        match &*promised {
            Some((other, at)) if other != set && at.elapsed() < PROMISE_HOLDS => {
                Err("this server gave its word to others".into())
            }
            _ => {
                *promised = Some((set.clone(), Instant::now()));
                Ok(())
            }
        }
    }
}
