//! Tasks as submitted, and their blocks: logs, artifacts, templates, secrets, volumes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Affinity, Resources, RestartPolicy, ScalingPolicy, Service, affinity_rows, canonicalize_affinities, non_empty,
    non_empty_map, nullable, rows,
};
use crate::{Constraint, DispatchPayloadConfig, Dur, Str, TaskLifecycleConfig, WaitConfig, WorkloadIdentity};

/// `Task` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Task {
    pub name: Str,
    pub driver: Str,
    pub user: Str,
    pub lifecycle: Option<TaskLifecycleConfig>,
    pub config: Option<BTreeMap<Str, Value>>,
    pub constraints: Option<Vec<Constraint>>,
    pub affinities: Option<Vec<Affinity>>,
    pub env: Option<BTreeMap<Str, Str>>,
    pub services: Option<Vec<Service>>,
    pub resources: Option<Resources>,
    pub restart_policy: Option<RestartPolicy>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub kill_timeout: Option<Dur>,
    pub log_config: Option<LogConfig>,
    pub artifacts: Option<Vec<TaskArtifact>>,
    pub vault: Option<Vault>,
    pub templates: Option<Vec<Template>>,
    pub dispatch_payload: Option<DispatchPayloadConfig>,
    pub volume_mounts: Option<Vec<VolumeMount>>,
    // Absent from the submitted form's JSON when not set.
    #[serde(rename = "CSIPluginConfig", skip_serializing_if = "Option::is_none")]
    pub csi_plugin_config: Option<TaskCsiPluginConfig>,
    pub leader: bool,
    pub shutdown_delay: Dur,
    pub kill_signal: Str,
    pub kind: Str,
    pub scaling_policies: Option<Vec<ScalingPolicy>>,
    pub identity: Option<WorkloadIdentity>,
}

/// `LogConfig` as submitted; `Enabled` is an old field that is ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LogConfig {
    pub max_files: Option<i64>,
    #[serde(rename = "MaxFileSizeMB")]
    pub max_file_size_mb: Option<i64>,
    pub enabled: Option<bool>,
    pub disabled: Option<bool>,
}

/// `TaskArtifact` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskArtifact {
    pub getter_source: Option<Str>,
    pub getter_options: Option<BTreeMap<Str, Str>>,
    pub getter_headers: Option<BTreeMap<Str, Str>>,
    pub getter_mode: Option<Str>,
    pub relative_dest: Option<Str>,
}

/// `Template` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Template {
    pub source_path: Option<Str>,
    pub dest_path: Option<Str>,
    pub embedded_tmpl: Option<Str>,
    pub change_mode: Option<Str>,
    pub change_script: Option<ChangeScript>,
    pub change_signal: Option<Str>,
    pub splay: Option<Dur>,
    pub perms: Option<Str>,
    pub uid: Option<i64>,
    pub gid: Option<i64>,
    pub left_delim: Option<Str>,
    pub right_delim: Option<Str>,
    pub envvars: Option<bool>,
    pub vault_grace: Option<Dur>,
    pub wait: Option<WaitConfig>,
    pub err_missing_key: Option<bool>,
}

nullable!(
    /// `ChangeScript` as submitted.
    ChangeScript => ChangeScript { command: Str, args: ScriptArgs, timeout: Dur, fail_on_error: bool }
);

type ScriptArgs = Option<Vec<Str>>;

nullable!(
    /// `Vault` as submitted.
    Vault => Vault {
        policies: VaultPolicies, namespace: Str, env: bool, disable_file: bool, change_mode: Str, change_signal: Str,
    }
);

type VaultPolicies = Option<Vec<Str>>;

nullable!(
    /// `VolumeMount` as submitted.
    VolumeMount => VolumeMount { volume: Str, destination: Str, read_only: bool, propagation_mode: Str }
);

/// `TaskCSIPluginConfig` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "TaskCSIPluginConfig", rename_all = "PascalCase")]
pub struct TaskCsiPluginConfig {
    #[serde(rename = "ID")]
    pub id: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub mount_dir: Str,
    pub stage_publish_base_dir: Str,
    pub health_timeout: Dur,
}

/// Kill timeout of a task without one: the time to end after the kill signal.
pub(crate) const DEFAULT_KILL_TIMEOUT: Dur = Dur::from_secs(5);
/// Reaction to a changed template or Vault token without a change mode.
pub const DEFAULT_CHANGE_MODE: &str = "restart";
/// Whether a task gets its Vault token as an environment variable, if its job does not say.
pub const DEFAULT_VAULT_ENV: bool = true;
/// File mode of a rendered template without one.
pub const DEFAULT_TEMPLATE_PERMS: &str = "0644";
/// Longest random delay before the reaction to a changed template without one.
pub const DEFAULT_TEMPLATE_SPLAY: Dur = Dur::from_secs(5);
/// Timeout of a change script without one.
pub const DEFAULT_SCRIPT_TIMEOUT: Dur = Dur::from_secs(5);

impl Task {
    pub(crate) fn canonicalize(&mut self, group_name: &str, restart: &RestartPolicy) {
        self.resources.get_or_insert_default().canonicalize();
        self.kill_timeout.get_or_insert(DEFAULT_KILL_TIMEOUT);
        self.log_config.get_or_insert_default().canonicalize();
        for artifact in self.artifacts.iter_mut().flatten() {
            artifact.canonicalize();
        }
        if let Some(vault) = &mut self.vault {
            *vault = std::mem::take(vault).or(Vault::defaults());
        }
        for template in self.templates.iter_mut().flatten() {
            template.canonicalize();
        }
        canonicalize_affinities(&mut self.affinities);
        self.restart_policy = Some(self.restart_policy.take().unwrap_or_default().or(restart.clone()));
        let default_name = format!("{group_name}-{}", self.name);
        for service in self.services.iter_mut().flatten() {
            service.canonicalize(&default_name);
        }
        for mount in self.volume_mounts.iter_mut().flatten() {
            mount.read_only.get_or_insert(false);
            mount.propagation_mode.get_or_insert_with(|| "private".into());
        }
        if let Some(lifecycle) = &self.lifecycle
            && *lifecycle == TaskLifecycleConfig::default()
        {
            self.lifecycle = None;
        }
        if let Some(plugin) = &mut self.csi_plugin_config {
            plugin.canonicalize();
        }
    }

    pub(crate) fn into_row(self, vault_namespace: &str) -> crate::Task {
        crate::Task {
            name: self.name,
            driver: self.driver,
            user: self.user,
            config: self.config,
            env: self.env,
            services: rows(self.services, Service::into_row),
            vault: self.vault.map(|vault| {
                let mut vault = vault.into_row();
                if vault.namespace.is_empty() {
                    vault.namespace = vault_namespace.into();
                }
                vault
            }),
            templates: rows(self.templates, Template::into_row),
            constraints: non_empty(self.constraints),
            affinities: affinity_rows(self.affinities),
            resources: self.resources.map(Resources::into_row),
            restart_policy: self.restart_policy.map(RestartPolicy::into_row),
            dispatch_payload: self.dispatch_payload,
            lifecycle: self.lifecycle,
            meta: self.meta,
            kill_timeout: self.kill_timeout.unwrap_or_default(),
            log_config: self.log_config.map(LogConfig::into_row),
            artifacts: rows(self.artifacts, TaskArtifact::into_row),
            leader: self.leader,
            shutdown_delay: self.shutdown_delay,
            volume_mounts: rows(self.volume_mounts, VolumeMount::into_row),
            scaling_policies: rows(self.scaling_policies, ScalingPolicy::into_row),
            kill_signal: self.kill_signal,
            kind: self.kind,
            csi_plugin_config: self.csi_plugin_config.map(|plugin| crate::TaskCsiPluginConfig {
                id: plugin.id,
                kind: plugin.kind,
                mount_dir: plugin.mount_dir,
                stage_publish_base_dir: plugin.stage_publish_base_dir,
                health_timeout: plugin.health_timeout,
            }),
            identity: self.identity,
        }
    }
}

impl LogConfig {
    pub(crate) fn canonicalize(&mut self) {
        self.max_files.get_or_insert(10);
        self.max_file_size_mb.get_or_insert(10);
        self.disabled.get_or_insert(false);
    }

    pub(crate) fn into_row(self) -> crate::LogConfig {
        crate::LogConfig {
            max_files: self.max_files.unwrap_or_default(),
            max_file_size_mb: self.max_file_size_mb.unwrap_or_default(),
            disabled: self.disabled.unwrap_or_default(),
        }
    }
}

impl TaskArtifact {
    fn canonicalize(&mut self) {
        let source = self.getter_source.get_or_insert_default().clone();
        self.getter_options = non_empty_map(self.getter_options.take());
        self.getter_headers = non_empty_map(self.getter_headers.take());
        let mode = self.getter_mode.get_or_insert_with(|| "any".into());
        if self.relative_dest.is_none() {
            let file = if mode == "file" { last_part(&source) } else { "" };
            self.relative_dest = Some(format!("local/{file}").into());
        }
    }

    fn into_row(self) -> crate::TaskArtifact {
        crate::TaskArtifact {
            getter_source: self.getter_source.unwrap_or_default(),
            getter_options: self.getter_options,
            getter_headers: self.getter_headers,
            getter_mode: self.getter_mode.unwrap_or_default(),
            relative_dest: self.relative_dest.unwrap_or_default(),
        }
    }
}

/// The last part of a path or URL; `.` if there is none.
fn last_part(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(".")
}

impl Template {
    fn canonicalize(&mut self) {
        self.source_path.get_or_insert_default();
        self.dest_path.get_or_insert_default();
        self.embedded_tmpl.get_or_insert_default();
        let mode = self.change_mode.get_or_insert_with(|| DEFAULT_CHANGE_MODE.into());
        self.change_signal = Some(match self.change_signal.take() {
            Some(signal) => signal.to_uppercase().into(),
            None if mode == "signal" => "SIGHUP".into(),
            None => Str::default(),
        });
        if let Some(script) = &mut self.change_script {
            *script = std::mem::take(script).or(ChangeScript {
                command: Some(Str::default()),
                args: Some(Some(Vec::new())),
                timeout: Some(DEFAULT_SCRIPT_TIMEOUT),
                fail_on_error: Some(false),
            });
        }
        self.splay.get_or_insert(DEFAULT_TEMPLATE_SPLAY);
        self.perms.get_or_insert_with(|| DEFAULT_TEMPLATE_PERMS.into());
        self.left_delim.get_or_insert_with(|| "{{".into());
        self.right_delim.get_or_insert_with(|| "}}".into());
        self.envvars.get_or_insert(false);
        self.err_missing_key.get_or_insert(false);
        self.vault_grace.get_or_insert(Dur::ZERO);
    }

    fn into_row(self) -> crate::Template {
        crate::Template {
            source_path: self.source_path.unwrap_or_default(),
            dest_path: self.dest_path.unwrap_or_default(),
            embedded_tmpl: self.embedded_tmpl.unwrap_or_default(),
            change_mode: self.change_mode.unwrap_or_default(),
            change_signal: self.change_signal.unwrap_or_default(),
            change_script: self.change_script.map(ChangeScript::into_row),
            splay: self.splay.unwrap_or_default(),
            perms: self.perms.unwrap_or_default(),
            uid: self.uid,
            gid: self.gid,
            left_delim: self.left_delim.unwrap_or_default(),
            right_delim: self.right_delim.unwrap_or_default(),
            envvars: self.envvars.unwrap_or_default(),
            vault_grace: self.vault_grace.unwrap_or_default(),
            wait: self.wait,
            err_missing_key: self.err_missing_key.unwrap_or_default(),
        }
    }
}

impl Vault {
    fn defaults() -> Self {
        Self {
            policies: None,
            namespace: Some(Str::default()),
            env: Some(DEFAULT_VAULT_ENV),
            disable_file: Some(false),
            change_mode: Some(DEFAULT_CHANGE_MODE.into()),
            change_signal: Some("SIGHUP".into()),
        }
    }
}

impl TaskCsiPluginConfig {
    fn canonicalize(&mut self) {
        if self.mount_dir.is_empty() {
            self.mount_dir = "/csi".into();
        }
        if self.stage_publish_base_dir.is_empty() {
            self.stage_publish_base_dir = "/local/csi".into();
        }
        if self.health_timeout == Dur::ZERO {
            self.health_timeout = Dur::from_secs(30);
        }
    }
}
