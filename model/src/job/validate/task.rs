//! Tasks: names, times, resources, mounts, lifecycle.

use std::collections::BTreeMap;

use super::{artifact, constraint, service};
use crate::job::admit::Languages;
use crate::job::errors::Errors;
use crate::{Dur, JobType, Task, TaskCsiPluginConfig, TaskGroup, Vault};

impl Task {
    pub(super) fn validate(&self, kind: &JobType, group: &TaskGroup, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.name.is_empty() {
            errors.push("Missing task name");
        }
        if self.name.contains(['/', '\\']) {
            // The task's directory has the task's name.
            errors.push("Task name cannot include slashes");
        } else if self.name.contains('\0') {
            errors.push("Task name cannot include null characters");
        }
        if self.driver.is_empty() {
            errors.push("Missing task driver");
        }
        self.validate_times(kind, group, &mut errors);
        match &self.resources {
            Some(resources) => errors.nest(resources.validate(languages)),
            None => errors.push("Missing task resources"),
        }
        match &self.log_config {
            Some(logs) => errors.nest(logs.validate(group.ephemeral_disk.as_ref())),
            None => errors.push("Missing Log Config"),
        }
        self.validate_constraints(kind, languages, &mut errors);
        errors.nest(service::of_task(self, group));
        if let Some(vault) = &self.vault {
            errors.nest_as("Vault validation failed", vault.validate());
        }
        self.validate_files(&mut errors);
        if let Some(payload) = &self.dispatch_payload
            && artifact::escapes("task/local", &payload.file)
        {
            errors.push("Dispatch Payload validation failed: destination escapes allocation directory");
        }
        if let Some(lifecycle) = &self.lifecycle {
            match lifecycle.hook.as_str() {
                "prestart" | "poststart" | "poststop" => {}
                "" => errors.push("Lifecycle validation failed: no lifecycle hook provided"),
                other => errors.push(format!("Lifecycle validation failed: invalid hook: {other}")),
            }
        }
        self.validate_proxy(group, &mut errors);
        self.validate_mounts(group, &mut errors);
        if let Some(plugin) = &self.csi_plugin_config {
            plugin.validate(&mut errors);
        }
        errors.into_result()
    }

    fn validate_times(&self, kind: &JobType, group: &TaskGroup, errors: &mut Errors) {
        if self.kill_timeout < Dur::ZERO {
            errors.push("KillTimeout must be a positive value");
        } else if let Some(update) = group.update.as_ref().filter(|_| *kind == JobType::Service)
            && update.progress_deadline > Dur::ZERO
            && self.kill_timeout > update.progress_deadline
        {
            errors.push(format!(
                "KillTimout ({}) longer than the group's ProgressDeadline ({})",
                self.kill_timeout, update.progress_deadline
            ));
        }
        if self.shutdown_delay < Dur::ZERO {
            errors.push("ShutdownDelay must be a positive value");
        }
    }

    fn validate_constraints(&self, kind: &JobType, languages: &dyn Languages, errors: &mut Errors) {
        for (index, one) in self.constraints.iter().flatten().enumerate() {
            constraint::constraint_at(index, one, languages, errors);
            if matches!(one.operand.as_str(), "distinct_hosts" | "distinct_property") {
                errors.push(format!("Constraint {} has disallowed Operand at task level: {}", index + 1, one.operand));
            }
        }
        constraint::affinities(&self.affinities, kind, languages, errors);
    }

    fn validate_files(&self, errors: &mut Errors) {
        let mut destinations: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, template) in self.templates.iter().flatten().enumerate() {
            let number = index + 1;
            errors.nest_as(format_args!("Template {number} validation failed"), template.validate());
            if let Some(other) = destinations.get(template.dest_path.as_str()) {
                errors.push(format!("Template {number} has same destination as {other}"));
            } else {
                destinations.insert(&template.dest_path, number);
            }
        }
        for (index, artifact) in self.artifacts.iter().flatten().enumerate() {
            errors.nest_as(format_args!("Artifact {} validation failed", index + 1), artifact.validate());
        }
    }

    /// A proxy task needs its service in the group, and may have no services itself.
    fn validate_proxy(&self, group: &TaskGroup, errors: &mut Errors) {
        let Some(name) = self.kind.strip_prefix("connect-proxy:") else { return };
        let found = group.services.iter().flatten().any(|service| {
            service.name == name && service.connect.as_ref().is_some_and(|connect| connect.sidecar_service.is_some())
        });
        if !found {
            errors.push("Connect proxy service name not found in services from task group");
        }
        if self.services.is_some() {
            errors.push("Connect proxy task must not have a service block");
        }
    }

    fn validate_mounts(&self, group: &TaskGroup, errors: &mut Errors) {
        for (index, mount) in self.volume_mounts.iter().flatten().enumerate() {
            if mount.volume.is_empty() {
                errors.push(format!("Volume Mount ({index}) references an empty volume"));
            } else if !group.volumes.as_ref().is_some_and(|volumes| volumes.contains_key(&mount.volume)) {
                errors.push(format!("Volume Mount ({index}) references undefined volume {}", mount.volume));
            }
            if !matches!(mount.propagation_mode.as_str(), "private" | "host-to-task" | "bidirectional") {
                errors.push(format!(
                    "Volume Mount ({index}) has an invalid propagation mode: \"{}\"",
                    mount.propagation_mode
                ));
            }
        }
    }
}

impl Vault {
    fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.policies.as_ref().is_none_or(Vec::is_empty) {
            errors.push("Policy list cannot be empty");
        }
        if self.policies.iter().flatten().any(|policy| policy == "root") {
            errors.push("Can not specify \"root\" policy");
        }
        match self.change_mode.as_str() {
            "signal" => {
                if self.change_signal.is_empty() {
                    errors.push("Signal must be specified when using change mode \"signal\"");
                }
            }
            "noop" | "restart" => {}
            other => errors.push(format!("Unknown change mode {other:?}")),
        }
        errors.into_result()
    }
}

impl TaskCsiPluginConfig {
    fn validate(&self, errors: &mut Errors) {
        if self.id.is_empty() {
            errors.push("CSIPluginConfig must have a non-empty PluginID");
        }
        if !matches!(self.kind.as_str(), "node" | "controller" | "monolith") {
            errors.push(format!(
                "CSIPluginConfig PluginType must be one of 'node', 'controller', or 'monolith', got: \"{}\"",
                self.kind
            ));
        }
        let (mount, stage) = (&self.mount_dir, &self.stage_publish_base_dir);
        // Compared as texts, so `/csi-2` counts as below `/csi`.
        if !mount.is_empty() && !stage.is_empty() && stage.starts_with(mount.as_str()) {
            errors.push(format!(
                "CSIPluginConfig StagePublishBaseDir must not be a subdirectory of MountDir, got: StagePublishBaseDir=\"{stage}\" MountDir=\"{mount}\""
            ));
        }
    }
}
