//! Settings of a server. Configuration files and the command line are read by the program.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use songline_log::Retention;
use songline_model::{Dur, SchedulerConfiguration, Secret};
use songline_scheduler::applier::RejectionLimits;
use songline_scheduler::leader::gc::GcAges;
use songline_scheduler::leader::heartbeats::HeartbeatLimits;
use songline_scheduler::leader::root_keys::RootKeyAges;

use crate::event_sinks::Receivers;
use crate::vault::Vault;

/// Port of servers for addresses without a port.
pub const DEFAULT_RPC_PORT: u16 = 4647;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Number of evaluations that are processed concurrently; 0 takes the number of processors.
    pub num_schedulers: usize,
    /// Types of evaluations that this server's workers process, in the words of [`songline_api::SCHEDULERS`].
    pub enabled_schedulers: Vec<&'static str>,
    /// Heartbeat TTLs and rates of nodes.
    pub heartbeats: HeartbeatLimits,
    /// When a node whose plans are rejected becomes ineligible.
    pub plan_rejections: RejectionLimits,
    /// Ages at which objects are garbage-collected.
    pub gc: GcAges,
    /// Interval of garbage collection.
    pub gc_interval: Dur,
    /// Interval at which abandoned claims on CSI volumes are looked for.
    pub csi_volume_gc_interval: Dur,
    /// Ages at which root keys are rotated and collected.
    pub root_keys: RootKeyAges,
    /// Interval of root key rotation and collection.
    pub root_key_gc_interval: Dur,
    /// Whether the event stream is enabled.
    pub enable_event_broker: bool,
    /// Number of event batches that a plain subscriber can go back.
    pub event_buffer_size: usize,
    /// Highest priority that a job may have.
    pub job_max_priority: i64,
    /// Largest job source that is kept, in bytes.
    pub job_max_source_bytes: u64,
    /// Number of versions that are kept of a job.
    pub job_tracked_versions: u64,
    /// Age until which log segments are kept.
    pub log_retention_age: Dur,
    /// Total size up to which log segments are kept, in bytes.
    pub log_retention_bytes: u64,
    /// Number of the newest log entries that are always kept, because consensus needs them. Not a key of
    /// configuration files.
    pub log_retention_entries_min: u64,
    /// Vault, which creates tokens for tasks. `None`: jobs that use it are refused.
    pub vault: Option<Arc<dyn Vault>>,
    /// Receivers of event sinks. `None`: sinks are refused.
    pub event_receivers: Option<Arc<dyn Receivers>>,
    /// Directory of the files of event sinks. `None`: sinks of type `file` are refused.
    pub event_sink_dir: Option<PathBuf>,
    /// Scheduler configuration of a new cluster, until an operator changes it.
    pub default_scheduler_config: SchedulerConfiguration,
    /// Number of servers, including this one, that must have found each other before they elect the first leader of a
    /// new cluster; `Some(0)` joins an existing cluster, or waits until a server of one joins this server. Without a
    /// number and without servers to join, this server forms a cluster of its own.
    pub bootstrap_expect: Option<usize>,
    /// Servers to join.
    pub join: JoinConfig,
    /// Shared key by which servers authenticate each other.
    pub encrypt: Option<EncryptKey>,
    /// Whether unauthenticated servers are accepted: for clusters that are migrating to certificates or an `encrypt`
    /// key.
    pub allow_unauthenticated_peers: bool,
    /// Whether this server is a non-voting member, which replicates everything and has no vote.
    pub non_voting_server: bool,
    /// Whether a server that has left the cluster joins again at its next start.
    pub rejoin_after_leave: bool,
    /// Region in which the objects of all regions are written; `None`: this server's.
    pub authoritative_region: Option<String>,
    /// Token of this server for its own requests to other regions; a management token of the authoritative one.
    pub replication_token: Secret,
}

impl ServerConfig {
    /// Whether this server forms a cluster of its own at start: `bootstrap_expect` is 1, or no other server is
    /// configured.
    pub fn starts_alone(&self) -> bool {
        self.bootstrap_expect == Some(1) || (self.bootstrap_expect.is_none() && self.join.is_empty())
    }

    /// Whether no other server is configured: this server expects none and joins none.
    pub(crate) fn is_single(&self) -> bool {
        self.expected() <= 1 && self.join.is_empty()
    }

    /// Whether this server has no cluster until a server of one is told to join it.
    pub(crate) fn waits_to_be_joined(&self) -> bool {
        self.bootstrap_expect == Some(0) && self.join.is_empty()
    }

    /// Number of servers that found a cluster; 0 when this server founds none.
    pub fn expected(&self) -> usize {
        self.bootstrap_expect.unwrap_or(0)
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            num_schedulers: 0,
            enabled_schedulers: songline_api::SCHEDULERS.to_vec(),
            heartbeats: HeartbeatLimits::default(),
            plan_rejections: RejectionLimits::default(),
            gc: GcAges::default(),
            gc_interval: Dur::from_mins(5),
            csi_volume_gc_interval: Dur::from_mins(5),
            root_keys: RootKeyAges::default(),
            root_key_gc_interval: Dur::from_mins(10),
            enable_event_broker: true,
            event_buffer_size: 100,
            job_max_priority: 100,
            job_max_source_bytes: 1_000_000,
            job_tracked_versions: 6,
            log_retention_age: Dur::from_hours(7 * 24),
            log_retention_bytes: 8 << 30,
            log_retention_entries_min: Retention::default().entries_min,
            vault: None,
            event_receivers: None,
            event_sink_dir: None,
            default_scheduler_config: default_scheduler_config(),
            bootstrap_expect: None,
            join: JoinConfig::default(),
            encrypt: None,
            allow_unauthenticated_peers: false,
            non_voting_server: false,
            rejoin_after_leave: false,
            authoritative_region: None,
            replication_token: Secret::default(),
        }
    }
}

/// Scheduler configuration of a new cluster: binpack, and system jobs may preempt other jobs.
pub(crate) fn default_scheduler_config() -> SchedulerConfiguration {
    let mut config = SchedulerConfiguration::default();
    config.preemption_config.system_scheduler_enabled = true;
    config
}

/// Servers to join: `server_join`, or the older keys with the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JoinConfig {
    /// Addresses that are tried until one answers; `host` or `host:port`.
    pub retry_join: Vec<String>,
    /// Addresses that are tried before those of `retry_join`; otherwise like them.
    pub start_join: Vec<String>,
}

impl JoinConfig {
    /// Whether no server to join is configured.
    pub fn is_empty(&self) -> bool {
        self.retry_join.is_empty() && self.start_join.is_empty()
    }

    /// All addresses with ports; an address without a port gets the servers' default port.
    pub fn addresses(&self) -> Vec<String> {
        self.start_join.iter().chain(&self.retry_join).map(|address| with_port(address, DEFAULT_RPC_PORT)).collect()
    }

    /// Refuses addresses that cannot be dialled. `block` is the setting's name in the error.
    pub fn check(&self, block: &str) -> Result<(), JoinError> {
        for address in self.start_join.iter().chain(&self.retry_join) {
            let (block, named) = (block.to_owned(), address.clone());
            if address.contains("provider=") {
                return Err(JoinError::AsksACloud { block, address: named });
            }
            if address.trim().is_empty() || address.contains(char::is_whitespace) {
                return Err(JoinError::NotAnAddress { block, address: named });
            }
        }
        Ok(())
    }
}

/// Reasons to refuse a server to join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The address is a query to a cloud provider.
    #[error("{block}: {address:?} asks a cloud for addresses, which is not offered: name the addresses")]
    AsksACloud {
        /// Name of the setting.
        block: String,
        /// The address as configured.
        address: String,
    },
    /// The text is no address.
    #[error("{block}: {address:?} is not an address")]
    NotAnAddress {
        /// Name of the setting.
        block: String,
        /// The address as configured.
        address: String,
    },
}

/// The `encrypt` key, which servers share: it authenticates them and encrypts their traffic. Never printed or shown.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptKey(Vec<u8>);

impl std::fmt::Debug for EncryptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncryptKey(..)")
    }
}

impl EncryptKey {
    /// Parses a key as configurations hold it: base64 of 16, 24 or 32 bytes.
    pub fn parse(text: &str) -> Result<Self, EncryptKeyError> {
        let bytes = STANDARD.decode(text).map_err(EncryptKeyError::Encoding)?;
        if !matches!(bytes.len(), 16 | 24 | 32) {
            return Err(EncryptKeyError::Size);
        }
        Ok(Self(bytes))
    }

    /// Generates a key, in the form that configurations hold.
    pub fn generate() -> Result<String, EncryptKeyError> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| EncryptKeyError::NoRandomness)?;
        Ok(STANDARD.encode(bytes))
    }

    /// The key's bytes.
    pub(crate) fn reveal(&self) -> &[u8] {
        &self.0
    }
}

/// Reasons why there is no `encrypt` key.
#[derive(Debug, thiserror::Error)]
pub enum EncryptKeyError {
    /// The text is not base64.
    #[error("Invalid encryption key: {0}")]
    Encoding(base64::DecodeError),
    /// The key has another length.
    #[error("Invalid encryption key: key size must be 16, 24 or 32 bytes")]
    Size,
    /// The system's random number generator failed.
    #[error("the system has no random bytes for a key")]
    NoRandomness,
}

/// `host:port` of an address that may lack a port. A bare IPv6 address gets its brackets.
pub fn with_port(address: &str, port: u16) -> String {
    if address.parse::<SocketAddr>().is_ok() {
        return address.to_owned();
    }
    match address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) if address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => address.to_owned(),
        Err(_) => format!("{address}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_a_port_gets_the_rpc_port() {
        for (told, meant) in [
            ("10.0.0.1", "10.0.0.1:4647"),
            ("10.0.0.1:4648", "10.0.0.1:4648"),
            ("s1.example", "s1.example:4647"),
            ("s1.example:99", "s1.example:99"),
            ("::1", "[::1]:4647"),
            ("[::1]", "[::1]:4647"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(with_port(told, DEFAULT_RPC_PORT), meant);
        }
    }

    #[test]
    fn an_encryption_key_has_one_of_three_sizes() {
        assert_eq!(EncryptKey::parse("AAAAAAAAAAAAAAAAAAAAAA==").map(|key| key.reveal().len()).ok(), Some(16));
        let (one, other) = (
            EncryptKey::generate().expect("there is randomness"),
            EncryptKey::generate().expect("there is randomness"),
        );
        assert_eq!(EncryptKey::parse(&one).expect("is a key").reveal().len(), 32);
        assert_ne!(one, other);
        for bad in ["AAAA", "not base64!"] {
            let error = EncryptKey::parse(bad).expect_err("is refused").to_string();
            assert!(error.starts_with("Invalid encryption key: "), "{error}");
        }
    }
}
