//! The agent around the server: configuration, clock, randomness, shutdown.

use songline_model::{SchedulerConfiguration, Time, TtlBounds};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::ui::UiSettings;

/// The agent around the server.
pub trait Agent: Send + Sync + 'static {
    /// The parts of the agent's configuration that HTTP needs.
    fn info(&self) -> &AgentInfo;

    /// The clock.
    fn now(&self) -> Time;

    /// A new random id.
    fn fresh_uuid(&self) -> Uuid;

    /// A random number from a range, for delays that differ.
    fn chance(&self, range: std::ops::Range<u64>) -> u64 {
        let (drawn, _) = self.fresh_uuid().as_u64_pair();
        range.start + drawn % range.end.saturating_sub(range.start).max(1)
    }

    /// Cancelled when the agent shuts down: waiting requests and streams end then.
    fn shutdown(&self) -> &CancellationToken;
}

/// Facts of an agent that do not change while it runs.
#[derive(Debug, Clone)]
pub struct AgentInfo {
    /// Version of the reference whose interface this is, such as `1.6.5`.
    pub version: String,
    /// Name of this server among the servers, such as `host.global`.
    pub name: String,
    /// Region.
    pub region: String,
    /// Region in which the objects of all regions are written: policies, roles, auth methods, binding rules, global
    /// tokens, namespaces, node pools and quotas. This region unless the configuration names another one.
    pub authoritative_region: String,
    /// Datacenter.
    pub datacenter: String,
    /// IP address that other servers use.
    pub server_ip: String,
    /// Port of the reference's gossip (serf).
    pub serf_port: u16,
    /// Whether the debugging routes (`agent/pprof`, `agent/host`) answer while ACLs are disabled.
    pub enable_debug: bool,
    /// Whether there is an event stream.
    pub enable_event_broker: bool,
    /// Largest job source that is stored, in bytes.
    pub job_max_source_bytes: u64,
    /// Highest priority of a job.
    pub job_max_priority: i64,
    /// Whether the servers create tokens of Vault for tasks.
    pub vault_enabled: bool,
    /// Whether rate counters tell callers apart.
    pub rpc_rate_labels: bool,
    /// Whether the metrics include summaries of dispatched jobs.
    pub dispatched_metrics: bool,
    /// Whether `/v1/metrics` answers in Prometheus' text form.
    pub prometheus_metrics: bool,
    /// The `acl` block: whether callers need tokens, and the bounds of tokens' lifetimes.
    pub acl: AclSettings,
    /// Number of versions that are kept of a job.
    pub job_tracked_versions: u64,
    /// Scheduler configuration that applies until an operator writes one.
    pub default_scheduler_config: SchedulerConfiguration,
    /// Headers of every response.
    pub response_headers: Vec<(String, String)>,
    /// The `ui` block.
    pub ui: UiSettings,
}

impl AgentInfo {
    /// Whether the objects of all regions are written in this region.
    pub fn is_authoritative(&self) -> bool {
        self.region == self.authoritative_region
    }
}

/// The `acl` block of an agent's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AclSettings {
    /// Whether ACLs are enabled: callers without a token are anonymous then.
    pub enabled: bool,
    /// Shortest and longest time until the expiration of a token.
    pub token_ttl: TtlBounds,
}
