//! This server in `agent/self`.

use std::collections::BTreeMap;

use songline_api::{AgentSelf, Cluster as _, Nodes as _};

use crate::Core;

impl Core {
    /// The configuration, statistics and tags that `agent/self` answers with.
    pub(super) fn shown(&self) -> AgentSelf {
        let view = Core::view(self);
        let leadership = *self.log().leadership().borrow();
        let members = self.cluster_members();
        let voters = members.iter().filter(|member| member.voter).count();
        let tasks = tokio::runtime::Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let failed = members.iter().filter(|member| !member.alive).count();
        let text =
            |pairs: &[(&str, String)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let mut stats: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        stats.insert(
            "nomad".into(),
            text(&[
                ("server", "true".into()),
                ("leader", leadership.is_leader.to_string()),
                ("leader_addr", self.leader_addr()),
                ("bootstrap", (self.facts.config.expected() <= 1).to_string()),
                ("known_regions", self.known_regions().len().to_string()),
            ]),
        );
        stats.insert(
            "raft".into(),
            text(&[
                ("applied_index", view.applied_index().to_string()),
                ("commit_index", (view.applied_index() + self.log().unapplied()).to_string()),
                ("last_log_index", (view.applied_index() + self.log().unapplied()).to_string()),
                ("state", if leadership.is_leader { "Leader" } else { "Follower" }.into()),
                ("term", leadership.term.to_string()),
                ("num_peers", voters.saturating_sub(1).to_string()),
            ]),
        );
        stats.insert(
            "serf".into(),
            text(&[
                ("members", members.len().max(1).to_string()),
                ("failed", failed.to_string()),
                ("left", "0".into()),
            ]),
        );
        stats.insert(
            "runtime".into(),
            text(&[
                ("arch", std::env::consts::ARCH.into()),
                ("cpu_count", processors.to_string()),
                // Its tasks are what goroutines are to the reference.
                ("goroutines", tasks.to_string()),
                ("kernel.name", "linux".into()),
                ("max_procs", processors.to_string()),
                ("version", env!("CARGO_PKG_VERSION").into()),
            ]),
        );
        // There is no Vault: the values of the reference without one.
        stats.insert(
            "vault".into(),
            text(&[
                ("token_expire_time", String::new()),
                ("token_last_renewal_time", String::new()),
                ("token_next_renewal_time", String::new()),
                ("token_ttl", "0s".into()),
                ("tracked_for_revoked", "0".into()),
            ]),
        );
        if let Some(id) = self.local_node() {
            let allocs = view.allocs_of_node(id).filter(|alloc| !alloc.terminal()).count();
            stats.insert(
                "client".into(),
                text(&[
                    ("node_id", id.to_string()),
                    ("known_servers", self.server_addresses().join(",")),
                    ("num_allocations", allocs.to_string()),
                ]),
            );
        }
        let tags = self.own_tags();
        AgentSelf { config: self.facts.agent_config.clone(), stats, tags }
    }
}
