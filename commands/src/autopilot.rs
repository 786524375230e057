//! Command for the autopilot configuration.

use serde::{Deserialize, Serialize};
use songline_model::AutopilotConfig;

/// Replace the autopilot configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetAutopilotConfig {
    /// The whole configuration; indexes are ignored.
    pub config: AutopilotConfig,
    /// If set, the modify index that the stored row must have.
    pub cas: Option<u64>,
}
