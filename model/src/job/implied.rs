//! Constraints that follow from a job's features: a node must support the signals, the secrets store and the provider
//! of service discovery that its tasks use. They are stored with the job as if its author had written them.

use std::collections::{BTreeMap, BTreeSet};

use super::canonical::add_constraint;
use crate::{Constraint, Job, Str, Task, TaskGroup};

impl Job {
    /// Adds the constraints that the job's groups imply.
    pub fn add_implied_constraints(&mut self) {
        for group in self.task_groups.iter_mut().flatten() {
            let implied = implied_by(group);
            for constraint in implied {
                // The author's own constraint on the version of Vault or Consul replaces the implied one.
                let versioned = constraint.l_target == VAULT_VERSION || constraint.l_target == CONSUL_VERSION;
                let said = group.constraints.iter().flatten().any(|own| own.l_target == constraint.l_target);
                if !(versioned && said) {
                    add_constraint(&mut group.constraints, constraint);
                }
            }
        }
    }
}

const VAULT_VERSION: &str = "${attr.vault.version}";
const CONSUL_VERSION: &str = "${attr.consul.version}";

fn implied_by(group: &TaskGroup) -> Vec<Constraint> {
    let mut implied = Vec::new();
    let tasks = || group.tasks.iter().flatten();
    if tasks().any(|task| task.vault.is_some()) {
        implied.push(constraint(VAULT_VERSION, "semver", ">= 0.6.1"));
    }
    let signals: BTreeSet<Str> = tasks().flat_map(signals_of).collect();
    if !signals.is_empty() {
        let list: Vec<&str> = signals.iter().map(Str::as_str).collect();
        implied.push(constraint("${attr.os.signals}", "set_contains", &list.join(",")));
    }
    let services = || group.services.iter().flatten().chain(tasks().flat_map(|task| task.services.iter().flatten()));
    let mut providers: BTreeMap<&str, bool> = BTreeMap::new();
    for service in services() {
        *providers.entry(service.provider.as_str()).or_default() |= service.checks.is_some();
    }
    if let Some(&checked) = providers.get("nomad") {
        implied.push(constraint("${attr.nomad.service_discovery}", "=", "true"));
        if checked {
            implied.push(constraint("${attr.nomad.version}", "semver", ">= 1.4.0"));
        }
    }
    if providers.contains_key("consul") {
        implied.push(constraint(CONSUL_VERSION, "semver", ">= 1.7.0"));
    }
    implied
}

/// Signals that may be sent to a task: to stop it, and when a template or its Vault token changes.
fn signals_of(task: &Task) -> Vec<Str> {
    let mut signals = Vec::new();
    if !task.kill_signal.is_empty() {
        signals.push(task.kill_signal.clone());
    }
    if let Some(vault) = &task.vault
        && vault.change_mode == "signal"
    {
        signals.push(vault.change_signal.clone());
    }
    for template in task.templates.iter().flatten() {
        if template.change_mode == "signal" {
            signals.push(template.change_signal.clone());
        }
    }
    signals
}

pub(super) fn constraint(left: &str, operand: &str, right: &str) -> Constraint {
    Constraint { l_target: left.into(), operand: operand.into(), r_target: right.into() }
}
