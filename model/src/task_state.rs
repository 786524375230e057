//! States and events of the tasks of an allocation.

mod display;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Blob, Dur, Str, TaskRunState, Time};

/// State, restarts and events of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskState {
    pub state: TaskRunState,
    pub failed: bool,
    pub restarts: u64,
    pub last_restart: Option<Time>,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub events: Option<Vec<TaskEvent>>,
    pub task_handle: Option<TaskHandle>,
}

/// One event in the life of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskEvent {
    #[serde(rename = "Type")]
    pub kind: Str,
    #[serde(with = "crate::unix_nanos")]
    pub time: Time,
    pub message: Str,
    pub display_message: Str,
    pub details: Option<BTreeMap<Str, Str>>,
    pub fails_task: bool,
    pub restart_reason: Str,
    pub setup_error: Str,
    pub driver_error: Str,
    pub exit_code: i64,
    pub signal: i64,
    /// Time that the task had between its signal and its forced end.
    pub kill_timeout: Dur,
    pub kill_error: Str,
    pub kill_reason: Str,
    /// Delay before the task restarts. Only events of a restart have one.
    pub start_delay: Dur,
    pub download_error: Str,
    pub validation_error: Str,
    /// In bytes.
    pub disk_limit: i64,
    pub failed_sibling: Str,
    pub vault_error: Str,
    pub task_signal_reason: Str,
    pub task_signal: Str,
    pub driver_message: Str,
    pub generic_source: Str,
}

/// Handle of a running task: driver state from which it is recovered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskHandle {
    pub version: i64,
    pub driver_state: Option<Blob>,
}
