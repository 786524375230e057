//! Commands about scaling. A new count comes with `RegisterJob`.

use serde::{Deserialize, Serialize};
use songline_model::{JobKey, ScalingEvent, Str};

/// Note what was done to the count of a group, or what was told about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AddScalingEvent {
    /// Of which job.
    pub job: JobKey,
    /// Of which group.
    pub group: Str,
    /// What happened; its index is ignored.
    pub event: ScalingEvent,
}
