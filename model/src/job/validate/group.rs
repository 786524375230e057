//! Task groups: names, counts, volumes, networks, and the group's policies and tasks.

use std::collections::BTreeMap;

use super::{constraint, policies, service};
use crate::job::admit::Languages;
use crate::job::errors::Errors;
use crate::{Dur, Job, JobType, NetworkResource, Str, TaskGroup, VolumeRequest};

/// Highest port number.
const PORT_MAX: i64 = 65_535;

impl TaskGroup {
    pub(super) fn validate(&self, job: &Job, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.name.is_empty() {
            errors.push("Missing task group name");
        } else if self.name.contains('\0') {
            errors.push("Task group name contains null character");
        }
        if self.count < 0 {
            errors.push("Task group count can't be negative");
        }
        if self.tasks.as_ref().is_none_or(Vec::is_empty) {
            errors.push("Missing tasks for task group");
        }
        if self.max_client_disconnect.is_some() && self.stop_after_client_disconnect.is_some() {
            errors.push(
                "Task group cannot be configured with both max_client_disconnect and stop_after_client_disconnect",
            );
        }
        if self.max_client_disconnect.is_some_and(|span| span < Dur::ZERO) {
            errors.push("max_client_disconnect cannot be negative");
        }
        constraint::constraints(&self.constraints, languages, &mut errors);
        constraint::affinities(&self.affinities, &job.kind, languages, &mut errors);
        self.validate_policies(job, &mut errors);
        self.validate_task_names(&mut errors);
        let canaries = self.update.as_ref().map_or(0, |update| update.canary);
        for (name, volume) in self.volumes.iter().flatten() {
            errors.nest_as(
                format_args!("Task group volume validation for {name} failed"),
                volume.validate(&job.kind, self.count, canaries),
            );
        }
        errors.nest_as("Task group network validation failed", self.validate_networks());
        errors.nest_as("Task group service validation failed", service::of_group(self));
        errors.nest_as("Task group service check validation failed", service::script_checks_of_group(self));
        errors.nest_as("Task group scaling policy validation failed", policies::scaling(self, job));
        for task in self.tasks.iter().flatten() {
            errors.nest_as(
                format_args!("Task {} validation failed", task.name),
                task.validate(&job.kind, self, languages),
            );
        }
        errors.into_result()
    }

    fn validate_policies(&self, job: &Job, errors: &mut Errors) {
        match &self.restart_policy {
            Some(policy) => errors.nest(policy.validate()),
            None => errors.push(format!("Task Group {} should have a restart policy", self.name)),
        }
        constraint::spreads(&self.spreads, &job.kind, errors);
        match (&self.reschedule_policy, &job.kind) {
            (Some(_), JobType::System) => errors.push("System jobs should not have a reschedule policy"),
            (None, JobType::System) => {}
            (Some(policy), _) => errors.nest(policy.validate()),
            (None, _) => errors.push(format!("Task Group {} should have a reschedule policy", self.name)),
        }
        match &self.ephemeral_disk {
            Some(disk) => errors.check(disk.validate()),
            None => errors.push(format!("Task Group {} should have an ephemeral disk object", self.name)),
        }
        if let Some(update) = &self.update {
            if !matches!(job.kind, JobType::Service | JobType::System) {
                errors.push(format!("Job type {:?} does not allow update block", job.kind.as_str()));
            }
            errors.nest(update.validate());
        }
        if let Some(migrate) = &self.migrate {
            if job.kind == JobType::Service {
                errors.nest(migrate.validate());
            } else {
                errors.push(format!("Job type {:?} does not allow migrate block", job.kind.as_str()));
            }
        }
    }

    fn validate_task_names(&self, errors: &mut Errors) {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, task) in self.tasks.iter().flatten().enumerate() {
            let number = index + 1;
            if task.name.is_empty() {
                errors.push(format!("Task {number} missing name"));
            } else if let Some(first) = numbers.get(task.name.as_str()) {
                errors.push(format!("Task {number} redefines '{}' from task {first}", task.name));
            } else {
                numbers.insert(&task.name, number);
            }
        }
        if self.tasks.iter().flatten().filter(|task| task.leader).count() > 1 {
            errors.push("Only one task may be marked as leader");
        }
    }

    fn validate_networks(&self) -> Result<(), Errors> {
        let mut ports = Ports::default();
        for network in self.networks.iter().flatten() {
            ports.take(network, "taskgroup network");
            let name = &network.hostname;
            if !name.is_empty() && !name.contains("${") && !is_domain_name(name) {
                ports.errors.push("Hostname is not a valid DNS name");
            }
        }
        for task in self.tasks.iter().flatten() {
            for network in task.resources.iter().flat_map(|resources| resources.networks.iter().flatten()) {
                ports.take(network, &task.name);
            }
        }
        ports.errors.into_result()
    }
}

/// Labels and static ports already in use, and their owners.
#[derive(Default)]
struct Ports {
    labels: BTreeMap<Str, String>,
    fixed: BTreeMap<(Str, i64), String>,
    errors: Errors,
}

impl Ports {
    fn take(&mut self, network: &NetworkResource, owner: &str) {
        for port in network.reserved_ports.iter().chain(&network.dynamic_ports).flatten() {
            let here = format!("{owner}:{}", port.label);
            if let Some(other) = self.labels.get(&port.label) {
                self.errors.push(format!("Port label {} already in use by {other}", port.label));
            } else {
                self.labels.insert(port.label.clone(), here.clone());
            }
            if port.value != 0 {
                let key = (port.host_network.clone(), port.value);
                if let Some(other) = self.fixed.get(&key) {
                    self.errors.push(format!("Static port {} already reserved by {other}", port.value));
                } else if port.value > PORT_MAX {
                    self.errors.push(format!("Port {} ({}) cannot be greater than {PORT_MAX}", port.label, port.value));
                } else {
                    self.fixed.insert(key, here);
                }
            }
            // -1 maps to the same port inside, whatever its number.
            if port.to < -1 {
                self.errors.push(format!("Port {:?} cannot be mapped to negative value {}", port.label, port.to));
            }
            if port.to > PORT_MAX {
                self.errors.push(format!(
                    "Port {:?} cannot be mapped to a port ({}) greater than {PORT_MAX}",
                    port.label, port.to
                ));
            }
        }
    }
}

/// Whether the name is labels of letters, digits, dashes and underscores between dots, 63 characters each, 253 in all.
fn is_domain_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let bare = name.strip_suffix('.').unwrap_or(name);
    name.len() <= 253 && !bare.bytes().all(|byte| byte.is_ascii_digit()) && bare.split('.').all(label)
}

impl VolumeRequest {
    fn validate(&self, kind: &JobType, count: i64, canaries: i64) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.source.is_empty() {
            errors.push("volume has an empty source");
        }
        if self.per_alloc {
            if matches!(kind, JobType::System | JobType::SysBatch) {
                errors.push("volume cannot be per_alloc for system or sysbatch jobs");
            }
            if canaries > 0 {
                errors.push("volume cannot be per_alloc when canaries are in use");
            }
        }
        match self.kind.as_str() {
            "host" => {
                if !self.attachment_mode.is_empty() {
                    errors.push("host volumes cannot have an attachment mode");
                }
                if !self.access_mode.is_empty() {
                    errors.push("host volumes cannot have an access mode");
                }
                if self.mount_options.is_some() {
                    errors.push("host volumes cannot have mount options");
                }
            }
            "csi" => self.validate_csi(count, &mut errors),
            other => errors.push(format!("volume has unrecognized type {other}")),
        }
        errors.into_result()
    }

    fn validate_csi(&self, count: i64, errors: &mut Errors) {
        match self.attachment_mode.as_str() {
            "" => errors.push("CSI volumes must have an attachment mode"),
            "block-device" if self.mount_options.is_some() => errors.push("block devices cannot have mount options"),
            _ => {}
        }
        let mode = self.access_mode.as_str();
        if matches!(mode, "single-node-reader-only" | "multi-node-reader-only") && !self.read_only {
            errors.push(format!("{mode} volumes must be read-only"));
        }
        let only_one = match mode {
            "" => {
                errors.push("CSI volumes must have an access mode");
                return;
            }
            "single-node-reader-only" => "reader",
            "single-node-writer" => "reader or writer",
            "multi-node-single-writer" if !self.read_only => "writer",
            _ => return,
        };
        if count > 1 && !self.per_alloc {
            errors.push(format!("volume with {mode} access mode allows only one {only_one}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::CsiMountOptions;

    fn check(modes: &[(&str, bool)], count: i64, change: impl Fn(&mut VolumeRequest), expected: Expect) {
        let told = modes.iter().map(|(mode, read_only)| {
            let mut volume = VolumeRequest {
                kind: "csi".into(),
                source: "v".into(),
                access_mode: (*mode).into(),
                attachment_mode: "file-system".into(),
                read_only: *read_only,
                ..VolumeRequest::default()
            };
            change(&mut volume);
            let said = volume.validate(&JobType::Service, count, 1);
            let said = said.map_or_else(|errors| errors.to_string(), |()| "valid".to_owned());
            format!("{mode:?} {}: {}\n", if *read_only { "ro" } else { "rw" }, said.replace('\n', " | "))
        });
        expected.assert_eq(&told.collect::<String>());
    }

    const MODES: [(&str, bool); 7] = [
        ("", false),
        ("single-node-reader-only", false),
        ("single-node-reader-only", true),
        ("single-node-writer", true),
        ("multi-node-single-writer", false),
        ("multi-node-single-writer", true),
        ("multi-node-multi-writer", false),
    ];

    #[test]
    fn exclusive_csi_volume_is_for_one_allocation() {
        check(
            &MODES,
            2,
            |_| {},
            expect![[r#"
            "" rw: 1 error occurred: | 	* CSI volumes must have an access mode |  | 
            "single-node-reader-only" rw: 2 errors occurred: | 	* single-node-reader-only volumes must be read-only | 	* volume with single-node-reader-only access mode allows only one reader |  | 
            "single-node-reader-only" ro: 1 error occurred: | 	* volume with single-node-reader-only access mode allows only one reader |  | 
            "single-node-writer" ro: 1 error occurred: | 	* volume with single-node-writer access mode allows only one reader or writer |  | 
            "multi-node-single-writer" rw: 1 error occurred: | 	* volume with multi-node-single-writer access mode allows only one writer |  | 
            "multi-node-single-writer" ro: valid
            "multi-node-multi-writer" rw: valid
        "#]],
        );
        check(
            &MODES,
            1,
            |_| {},
            expect![[r#"
            "" rw: 1 error occurred: | 	* CSI volumes must have an access mode |  | 
            "single-node-reader-only" rw: 1 error occurred: | 	* single-node-reader-only volumes must be read-only |  | 
            "single-node-reader-only" ro: valid
            "single-node-writer" ro: valid
            "multi-node-single-writer" rw: valid
            "multi-node-single-writer" ro: valid
            "multi-node-multi-writer" rw: valid
        "#]],
        );
    }

    #[test]
    fn block_device_has_no_mount_options() {
        let block = |volume: &mut VolumeRequest| {
            volume.attachment_mode = "block-device".into();
            volume.mount_options = Some(CsiMountOptions::default());
        };
        check(
            &MODES[..1],
            1,
            block,
            expect![[r#"
            "" rw: 2 errors occurred: | 	* block devices cannot have mount options | 	* CSI volumes must have an access mode |  | 
        "#]],
        );
    }
}
