//! Scaling events: changes of the counts of a job's groups, and messages about them. Scaling policies are part of the
//! job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EvalId, JobId, JobKey, NamespaceName, Str, Time};

/// Number of events kept per group; the oldest ones are dropped.
pub const SCALING_EVENTS_MAX: usize = 20;

/// A scaling event: one change of a group's count, or one message about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingEvent {
    #[serde(with = "crate::unix_nanos")]
    pub time: Time,
    /// New count; `None` for a message alone.
    pub count: Option<i64>,
    pub previous_count: i64,
    pub message: Str,
    pub error: bool,
    pub meta: Option<BTreeMap<Str, Value>>,
    #[serde(rename = "EvalID")]
    pub eval_id: Option<EvalId>,
    pub create_index: u64,
}

/// The newest scaling events of each group of a job, newest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobScalingEvents {
    pub namespace: NamespaceName,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    pub scaling_events: BTreeMap<Str, Vec<ScalingEvent>>,
    pub modify_index: u64,
}

impl JobScalingEvents {
    /// The key of the events' job.
    pub fn job_key(&self) -> JobKey {
        JobKey { namespace: self.namespace.clone(), id: self.job_id.clone() }
    }

    /// Adds an event as the newest of its group.
    pub fn add(&mut self, group: Str, event: ScalingEvent) {
        let events = self.scaling_events.entry(group).or_default();
        events.insert(0, event);
        events.truncate(SCALING_EVENTS_MAX);
    }
}
