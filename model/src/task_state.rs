//! States and events of the tasks of an allocation.

mod display;

use serde::{Deserialize, Serialize};

use crate::{Blob, Dur, FlatMap, RareText, Str, TaskRunState, Time};

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
    pub details: Option<FlatMap<Str, Str>>,
    pub fails_task: bool,
    pub restart_reason: RareText,
    pub setup_error: RareText,
    pub driver_error: RareText,
    pub exit_code: i64,
    pub signal: i64,
    /// Time that the task had between its signal and its forced end.
    pub kill_timeout: Dur,
    pub kill_error: RareText,
    pub kill_reason: RareText,
    /// Delay before the task restarts. Only events of a restart have one.
    pub start_delay: Dur,
    pub download_error: RareText,
    pub validation_error: RareText,
    /// In bytes.
    pub disk_limit: i64,
    pub failed_sibling: RareText,
    pub vault_error: RareText,
    pub task_signal_reason: RareText,
    pub task_signal: RareText,
    pub driver_message: RareText,
    pub generic_source: RareText,
}

/// Handle of a running task: driver state from which it is recovered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskHandle {
    pub version: i64,
    pub driver_state: Option<Blob>,
}
