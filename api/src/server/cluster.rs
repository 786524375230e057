//! Servers of a cluster, their health, and changes of the membership.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use songline_model::Time;

use super::{Agent, ProposeError};

/// Membership of the cluster.
pub trait Cluster: Agent {
    /// `host:port` of the leader's server port, empty when there is no leader.
    fn leader_addr(&self) -> String;

    /// `host:port` of the server port of every server of the cluster.
    fn peer_addrs(&self) -> Vec<String>;

    /// All servers of the cluster, this one included, ordered by id.
    fn members(&self) -> Vec<Member>;

    /// Health of the cluster's servers. Only the leader knows that of the others.
    fn cluster_health(&self) -> ClusterHealth;

    /// Introduces this server and the one at `host:port` to each other; the server without a cluster joins the
    /// cluster of the other.
    fn join(&self, address: &str) -> impl Future<Output = Result<(), String>> + Send;

    /// Removes a server from the cluster. Succeeds only on the leader.
    fn remove_member(&self, id: &str) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Transfers leadership to the server `id`, or, without an id, to the most suitable server. Succeeds only on the
    /// leader.
    fn transfer_leadership(&self, id: Option<&str>) -> impl Future<Output = Result<(), ProposeError>> + Send;
}

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
