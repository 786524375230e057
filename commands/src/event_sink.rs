//! Commands for event sinks.

use serde::{Deserialize, Serialize};
use songline_model::{EventSink, EventSinkName, Str};

/// Create or update event sinks. An existing sink keeps its position and begins a new run of deliveries.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertEventSinks {
    /// Whole rows; indexes are ignored.
    pub sinks: Vec<EventSink>,
    /// Position of the sinks that do not exist yet. `None`: they get the events after this entry.
    pub position: Option<u64>,
}

/// Delete event sinks: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteEventSinks {
    /// Names of the sinks.
    pub names: Vec<EventSinkName>,
}

/// Record the progress of an event sink.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveEventSink {
    /// Name of the sink.
    pub name: EventSinkName,
    /// The progress.
    pub change: EventSinkChange,
}

/// A change of the progress of an event sink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EventSinkChange {
    /// A run of deliveries came to an index. The numbers are totals, so that a repeated report changes nothing.
    Delivered {
        /// Index that began the run.
        run: u64,
        /// Index up to which every event was delivered.
        position: u64,
        /// Number of events that were delivered since the sink was created.
        delivered: u64,
        /// Number of gaps that the receiver was told of since the sink was created.
        gaps: u64,
    },
    /// A delivery of a run failed and is tried again.
    Failed {
        /// Index that began the run.
        run: u64,
        /// Reason of the failure.
        error: Str,
    },
    /// A user set the position, which begins a new run.
    Reset {
        /// The new position: the next event is the first one after it.
        position: u64,
    },
}

impl Default for EventSinkChange {
    fn default() -> Self {
        Self::Delivered { run: 0, position: 0, delivered: 0, gaps: 0 }
    }
}
