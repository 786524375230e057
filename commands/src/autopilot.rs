//! Commands about how the servers look after themselves.

use serde::{Deserialize, Serialize};
use songline_model::AutopilotConfig;

/// Replace the autopilot configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetAutopilotConfig {
    /// All of it; indexes ignored.
    pub config: AutopilotConfig,
    /// Only when the stored row has this modify index.
    pub cas: Option<u64>,
}
