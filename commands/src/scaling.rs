//! Command for scaling events. A new count is set by `RegisterJob`.

use serde::{Deserialize, Serialize};
use songline_model::{JobKey, ScalingEvent, Str};

/// Record a change of a group's count, or a message about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AddScalingEvent {
    /// The job.
    pub job: JobKey,
    /// Name of the group.
    pub group: Str,
    /// The event; its index is ignored.
    pub event: ScalingEvent,
}
