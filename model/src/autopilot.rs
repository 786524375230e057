//! How the servers look after themselves: a row of configuration.

use serde::{Deserialize, Serialize};

use crate::Dur;

/// `AutopilotConfig` of the reference's state. Its default is all zero; a new cluster starts with `AutopilotConfig::initial`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AutopilotConfig {
    pub cleanup_dead_servers: bool,
    /// How long a server stays well without hearing of the leader.
    pub last_contact_threshold: Dur,
    /// How many entries a server may be behind and still be well.
    pub max_trailing_logs: u64,
    /// How many servers are kept however dead they are.
    pub min_quorum: u64,
    /// How long a new server is well before it may vote.
    pub server_stabilization_time: Dur,
    pub enable_redundancy_zones: bool,
    pub disable_upgrade_migration: bool,
    pub enable_custom_upgrades: bool,
    pub create_index: u64,
    pub modify_index: u64,
}

impl AutopilotConfig {
    /// What counts until somebody says otherwise.
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
