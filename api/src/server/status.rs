//! Health, statistics and metrics of this server.

use std::collections::BTreeMap;
use std::time::Duration;

use songline_model::Time;

use super::Agent;
use crate::http::rate::RateOp;
use crate::http::route::Route;

/// Health, statistics and metrics of this server.
pub trait Status: Agent {
    /// Current `config` and `stats` of `agent/self`, and the tags of its member.
    fn agent_self(&self) -> AgentSelf;

    /// The metrics of the last complete interval, as one JSON object in the reference's form.
    fn metrics(&self) -> String;

    /// The metrics since the start, in version 0.0.4 of Prometheus' text format.
    fn metrics_prometheus(&self) -> String;

    /// Counts a request that this server answers itself.
    fn count_served(&self, served: Served);

    /// Records the time that this server took to answer a request of `route`; for a stream, the time until it began.
    fn measure_answer(&self, route: Route, took: Duration);

    /// Health of the server and of the node in this process; `None` for a part that does not run here.
    fn health(&self) -> Health;

    /// Reason why this server has stopped serving requests; `None` while it serves.
    fn fenced(&self) -> Option<String> {
        None
    }

    /// Time since which this server has been healthy.
    fn stable_since(&self) -> Time;
}

/// Changing parts of `agent/self`.
#[derive(Debug, Clone, Default)]
pub struct AgentSelf {
    /// The configuration in the reference's shape, secrets redacted.
    pub config: serde_json::Value,
    /// Statistics: values by group and name.
    pub stats: BTreeMap<String, BTreeMap<String, String>>,
    /// Tags of this server's member.
    pub tags: BTreeMap<String, String>,
}

/// Health of an agent's parts.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// The node in this process.
    pub client: Option<Wellness>,
    /// The server in this process.
    pub server: Option<Wellness>,
}

/// Health of one part.
#[derive(Debug, Clone)]
pub struct Wellness {
    /// Whether the part is healthy.
    pub ok: bool,
    /// `ok`, or a description of the failure.
    pub message: String,
}

/// Labels of a request in the rate counters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The reference's endpoint name, such as `job`.
    pub endpoint: &'static str,
    /// Operation: read, write or list.
    pub op: RateOp,
    /// Label of the caller; `None` when counters do not tell callers apart.
    pub identity: Option<String>,
}
