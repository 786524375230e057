//! Autopilot configuration: the thresholds for server health, dead server removal and promotion to voter.

use serde::{Deserialize, Serialize};

use crate::Dur;

/// `AutopilotConfig` of the reference's state. The default is all zero; a new cluster starts with
/// `AutopilotConfig::initial`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AutopilotConfig {
    pub cleanup_dead_servers: bool,
    /// Time without contact to the leader after which a server counts as unhealthy.
    pub last_contact_threshold: Dur,
    /// Number of log entries that a healthy server may be behind the leader.
    pub max_trailing_logs: u64,
    /// Number of servers that are kept in the cluster even if they are dead.
    pub min_quorum: u64,
    /// Time that a new server has to be healthy before it becomes a voter.
    pub server_stabilization_time: Dur,
    pub enable_redundancy_zones: bool,
    pub disable_upgrade_migration: bool,
    pub enable_custom_upgrades: bool,
    pub create_index: u64,
    pub modify_index: u64,
}

impl AutopilotConfig {
    /// Configuration of a new cluster, until an operator changes it.
    pub fn initial() -> Self {
        Self {
            cleanup_dead_servers: true,
            last_contact_threshold: Dur::from_millis(200),
            max_trailing_logs: 250,
            server_stabilization_time: Dur::from_secs(10),
            ..Self::default()
        }
    }
}
