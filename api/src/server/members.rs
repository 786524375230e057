//! Servers of a cluster, and their health.

use std::collections::BTreeMap;
use std::time::Duration;

use songline_model::Time;

/// A server of the cluster.
#[derive(Debug, Clone)]
pub struct Member {
    /// The server's number, in the form of a UUID.
    pub id: String,
    /// Name among the servers, such as `host.global`; empty until the server was heard of.
    pub name: String,
    /// `host:port` of its server port.
    pub address: String,
    /// Port of the reference's gossip (serf).
    pub serf_port: u16,
    /// Member tags, in the words of the reference.
    pub tags: BTreeMap<String, String>,
    /// Version of the reference whose interface the server has.
    pub version: String,
    /// Whether the server was heard of recently.
    pub alive: bool,
    /// Whether the server votes.
    pub voter: bool,
    /// Whether the server leads.
    pub leader: bool,
    /// Whether it is the server that answers.
    pub own: bool,
}

impl Member {
    /// Host part of the address, without brackets.
    pub fn host(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// Health of all servers of a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterHealth {
    /// Whether all servers are healthy.
    pub healthy: bool,
    /// Number of voters that may fail while writes still succeed.
    pub failure_tolerance: u64,
    /// Health by server id.
    pub servers: BTreeMap<String, MemberHealth>,
}

/// Health of one server, as the leader sees it.
#[derive(Debug, Clone)]
pub struct MemberHealth {
    /// Whether the server is healthy.
    pub healthy: bool,
    /// Time since the server was last heard of.
    pub last_contact: Duration,
    /// Raft term that the server is in.
    pub last_term: u64,
    /// Raft index of the last entry in its log.
    pub last_index: u64,
    /// Time since which `healthy` has its value.
    pub stable_since: Time,
}
