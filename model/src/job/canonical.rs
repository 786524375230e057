//! Canonical form of a stored job, after the submitted form got its defaults: variables in names replaced, targets of
//! scaling policies set, empty lists and maps replaced by null (null and an empty list must not look like a change of
//! the job).

use std::collections::BTreeMap;

use crate::{
    Constraint, DEFAULT_NAMESPACE, Job, JobType, NetworkResource, ScalingPolicy, Service, ServiceCheck, Str, Task,
    TaskGroup,
};

impl Job {
    /// Brings the job into canonical form. Idempotent.
    pub fn canonicalize(&mut self) {
        clear_empty_map(&mut self.meta);
        if self.namespace.is_empty() {
            self.namespace = DEFAULT_NAMESPACE.into();
        }
        if self.datacenters.as_ref().is_none_or(Vec::is_empty) {
            self.datacenters = Some(vec!["*".into()]);
        }
        let around = Around {
            namespace: self.namespace.0.clone(),
            job_id: self.id.0.clone(),
            job: self.name.clone(),
            kind: self.kind.clone(),
        };
        for group in self.task_groups.iter_mut().flatten() {
            group.canonicalize(&around);
        }
        if let Some(parameterized) = &mut self.parameterized_job {
            if parameterized.payload.is_empty() {
                parameterized.payload = "optional".into();
            }
            clear_empty(&mut parameterized.meta_required);
            clear_empty(&mut parameterized.meta_optional);
        }
        if let Some(periodic) = &mut self.periodic
            && periodic.time_zone.is_empty()
        {
            periodic.time_zone = "UTC".into();
        }
    }
}

/// Values that groups, tasks and services take from the job.
struct Around {
    namespace: Str,
    job_id: Str,
    job: Str,
    kind: JobType,
}

impl TaskGroup {
    fn canonicalize(&mut self, around: &Around) {
        clear_empty_map(&mut self.meta);
        if self.count == 0 && around.kind == JobType::System {
            self.count = 1;
        }
        if let Some(scaling) = &mut self.scaling {
            scaling.aim(around, &self.name, None);
        }
        for network in self.networks.iter_mut().flatten() {
            network.canonicalize();
        }
        for service in self.services.iter_mut().flatten() {
            service.canonicalize(around, &self.name, None);
        }
        for task in self.tasks.iter_mut().flatten() {
            task.canonicalize(around, &self.name);
        }
    }
}

impl Task {
    fn canonicalize(&mut self, around: &Around, group: &Str) {
        clear_empty_map(&mut self.meta);
        clear_empty_map(&mut self.config);
        clear_empty_map(&mut self.env);
        for service in self.services.iter_mut().flatten() {
            service.canonicalize(around, group, Some(&self.name));
        }
        if let Some(resources) = &mut self.resources {
            for network in resources.networks.iter_mut().flatten() {
                network.canonicalize();
            }
        }
        for artifact in self.artifacts.iter_mut().flatten() {
            clear_empty_map(&mut artifact.getter_options);
            clear_empty_map(&mut artifact.getter_headers);
            if artifact.getter_mode.is_empty() {
                artifact.getter_mode = "any".into();
            }
        }
        if let Some(vault) = &mut self.vault {
            vault.change_signal = vault.change_signal.to_uppercase().into();
        }
        for template in self.templates.iter_mut().flatten() {
            template.change_signal = template.change_signal.to_uppercase().into();
        }
        for policy in self.scaling_policies.iter_mut().flatten() {
            policy.aim(around, group, Some(&self.name));
        }
    }
}

impl ScalingPolicy {
    /// Sets the policy's target, overwriting the author's.
    fn aim(&mut self, around: &Around, group: &Str, task: Option<&Str>) {
        let whole = [("Namespace", &around.namespace), ("Job", &around.job_id), ("Group", group)];
        let mut target: BTreeMap<Str, Str> =
            whole.into_iter().map(|(key, value)| (key.into(), value.clone())).collect();
        if let Some(task) = task {
            target.insert("Task".into(), task.clone());
        }
        self.target = Some(target);
        clear_empty_map(&mut self.policy);
    }
}

impl NetworkResource {
    fn canonicalize(&mut self) {
        clear_empty(&mut self.reserved_ports);
        clear_empty(&mut self.dynamic_ports);
        for port in self.reserved_ports.iter_mut().chain(&mut self.dynamic_ports).flatten() {
            if port.host_network.is_empty() {
                port.host_network = "default".into();
            }
        }
    }
}

impl Service {
    fn canonicalize(&mut self, around: &Around, group: &Str, task: Option<&Str>) {
        clear_empty(&mut self.tags);
        clear_empty(&mut self.canary_tags);
        clear_empty(&mut self.checks);
        clear_empty_map(&mut self.tagged_addresses);
        if let Some(task) = task {
            self.task_name = task.clone();
        }
        // For a service of a group, `group` takes the place of the task name.
        let task_name: &str = task.map_or("group", |task| task);
        let base = format!("{}-{group}-{task_name}", around.job);
        let variables = [("JOB", around.job.as_str()), ("TASKGROUP", group), ("TASK", task_name), ("BASE", &base)];
        self.name = replace_variables(&self.name, &variables);
        for check in self.checks.iter_mut().flatten() {
            check.canonicalize(&self.name, &self.task_name);
        }
        // Consul namespaces are not supported; a service of provider `nomad` is in the job's namespace.
        self.namespace = if self.provider == "nomad" { around.namespace.clone() } else { DEFAULT_NAMESPACE.into() };
    }
}

impl ServiceCheck {
    fn canonicalize(&mut self, service: &Str, task: &Str) {
        clear_empty(&mut self.args);
        clear_empty_map(&mut self.header);
        for values in self.header.iter_mut().flatten().map(|(_, values)| values) {
            clear_empty(values);
        }
        if self.name.is_empty() {
            self.name = format!("service: {service:?} check").into();
        }
        if self.task_name.is_empty() {
            self.task_name = task.clone();
        }
        if self.on_update.is_empty() {
            self.on_update = "require_healthy".into();
        }
    }
}

/// Replaces `${NAME}` for the given names; other variables stay.
fn replace_variables(text: &Str, variables: &[(&str, &str)]) -> Str {
    if !text.contains("${") {
        return text.clone();
    }
    let mut out = text.to_string();
    for (name, value) in variables {
        out = out.replace(&format!("${{{name}}}"), value);
    }
    out.into()
}

fn clear_empty<T>(list: &mut Option<Vec<T>>) {
    if list.as_ref().is_some_and(Vec::is_empty) {
        *list = None;
    }
}

fn clear_empty_map<K, V>(map: &mut Option<BTreeMap<K, V>>) {
    if map.as_ref().is_some_and(BTreeMap::is_empty) {
        *map = None;
    }
}

/// Adds a constraint unless the list has an equal one.
pub(super) fn add_constraint(constraints: &mut Option<Vec<Constraint>>, constraint: Constraint) {
    let list = constraints.get_or_insert_default();
    if !list.contains(&constraint) {
        list.push(constraint);
    }
}
