//! Tasks: one program of a group, with its blocks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Affinity, Constraint, Dur, Resources, RestartPolicy, ScalingPolicy, Service, Str};

/// A task: one program with its driver, configuration, resources and blocks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Task {
    pub name: Str,
    pub driver: Str,
    pub user: Str,
    pub config: Option<BTreeMap<Str, Value>>,
    pub env: Option<BTreeMap<Str, Str>>,
    pub services: Option<Vec<Service>>,
    pub vault: Option<Vault>,
    pub templates: Option<Vec<Template>>,
    pub constraints: Option<Vec<Constraint>>,
    pub affinities: Option<Vec<Affinity>>,
    pub resources: Option<Resources>,
    pub restart_policy: Option<RestartPolicy>,
    pub dispatch_payload: Option<DispatchPayloadConfig>,
    pub lifecycle: Option<TaskLifecycleConfig>,
    pub meta: Option<BTreeMap<Str, Str>>,
    /// Time between the kill signal and the forced end.
    pub kill_timeout: Dur,
    pub log_config: Option<LogConfig>,
    pub artifacts: Option<Vec<TaskArtifact>>,
    pub leader: bool,
    /// Time between the deregistration of services and the kill signal.
    pub shutdown_delay: Dur,
    pub volume_mounts: Option<Vec<VolumeMount>>,
    pub scaling_policies: Option<Vec<ScalingPolicy>>,
    pub kill_signal: Str,
    pub kind: Str,
    #[serde(rename = "CSIPluginConfig")]
    pub csi_plugin_config: Option<TaskCsiPluginConfig>,
    pub identity: Option<WorkloadIdentity>,
}

/// Number and size of a task's log files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LogConfig {
    pub max_files: i64,
    /// In MiB.
    #[serde(rename = "MaxFileSizeMB")]
    pub max_file_size_mb: i64,
    pub disabled: bool,
}

/// A file to fetch before the task starts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskArtifact {
    pub getter_source: Str,
    pub getter_options: Option<BTreeMap<Str, Str>>,
    pub getter_headers: Option<BTreeMap<Str, Str>>,
    pub getter_mode: Str,
    pub relative_dest: Str,
}

/// A file rendered from keys, secrets and services.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Template {
    pub source_path: Str,
    pub dest_path: Str,
    pub embedded_tmpl: Str,
    pub change_mode: Str,
    pub change_signal: Str,
    pub change_script: Option<ChangeScript>,
    /// Longest random wait before tasks are told of a change.
    pub splay: Dur,
    pub perms: Str,
    /// Owner of the file; `None`: the agent.
    pub uid: Option<i64>,
    /// Group of the file; `None`: that of the agent.
    pub gid: Option<i64>,
    pub left_delim: Str,
    pub right_delim: Str,
    pub envvars: bool,
    /// Unused.
    pub vault_grace: Dur,
    pub wait: Option<WaitConfig>,
    pub err_missing_key: bool,
}

/// A script to run when a template changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ChangeScript {
    pub command: Str,
    pub args: Option<Vec<Str>>,
    /// Longest run of the script.
    pub timeout: Dur,
    pub fail_on_error: bool,
}

/// Bounds of the wait for stable template data.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WaitConfig {
    pub min: Option<Dur>,
    pub max: Option<Dur>,
}

/// The task's Vault policies and the reaction to a new token.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Vault {
    pub policies: Option<Vec<Str>>,
    pub namespace: Str,
    pub env: bool,
    pub disable_file: bool,
    pub change_mode: Str,
    pub change_signal: Str,
}

/// Exposure of the task's identity token: in its environment, in a file, or not at all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WorkloadIdentity {
    pub env: bool,
    pub file: bool,
}

/// The file that receives the dispatch payload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DispatchPayloadConfig {
    pub file: Str,
}

/// Start of a task before, after or beside the main tasks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskLifecycleConfig {
    pub hook: Str,
    pub sidecar: bool,
}

/// Phase in which a task runs. The tasks of one phase run at the same time, prestart sidecars also beside main tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskPhase {
    /// Prestart tasks that end before the main tasks start.
    Before,
    /// Main tasks and poststart tasks.
    Main,
    /// Poststop tasks.
    After,
    /// Prestart tasks that go on beside the main tasks.
    Sidecar,
}

impl TaskPhase {
    /// The phase of a task with this lifecycle.
    pub fn of(lifecycle: Option<&TaskLifecycleConfig>) -> Self {
        match lifecycle {
            Some(TaskLifecycleConfig { hook, sidecar: true }) if hook == "prestart" => Self::Sidecar,
            Some(TaskLifecycleConfig { hook, sidecar: false }) if hook == "prestart" => Self::Before,
            Some(TaskLifecycleConfig { hook, .. }) if hook == "poststop" => Self::After,
            Some(_) | None => Self::Main,
        }
    }
}

/// A volume in a task, with the path at which it appears there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeMount {
    pub volume: Str,
    pub destination: Str,
    pub read_only: bool,
    pub propagation_mode: Str,
}

/// Id and kind of the CSI plugin that the task runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskCsiPluginConfig {
    #[serde(rename = "ID")]
    pub id: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub mount_dir: Str,
    pub stage_publish_base_dir: Str,
    /// Time after the start within which the plugin has to answer.
    pub health_timeout: Dur,
}
