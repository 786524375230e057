//! Blocks with special rules: constraints, affinities, vault, ports, scaling, and the job itself.

use serde_json::{Value as Json, json};
use songline_model::spec;

use super::Object;
use super::decode::{self, Decoder, Instance, list_or_null};
use super::schema::{CSI_PLUGIN, JOB, TASK, TASK_SCALING, VAULT, group_of_task};
use crate::hcl::Range;
use crate::hcl::ast::{Attribute, Block, Body};
use crate::hcl::convert::{Type, convert};
use crate::hcl::eval::Scope;
use crate::hcl::value::Value;

/// Temporary members, removed when the job is finished: tasks directly in the job, and the vaults of job and group.
pub(super) const JOB_TASKS: &str = "\u{0}tasks";
pub(super) const VAULT_BELOW: &str = "\u{0}vault";

/// Decodes the job. Its label is the default of its id and name.
pub(super) fn job(block: &Block, scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> Object {
    let instance = decode::instance(block);
    let mut job = decoder.object(&JOB, &instance, scope);
    finish(&mut job, instance.label());
    job
}

/// Completes a job whose blocks are decoded: its names, tasks directly in the job, and inherited vaults.
pub(super) fn finish(job: &mut Object, label: &str) {
    for key in ["ID", "Name"] {
        if job.get(key) == Some(&Json::Null) {
            job.insert(key.to_string(), json!(label));
        }
    }
    if let Some(Json::Array(lone)) = job.shift_remove(JOB_TASKS) {
        let of_task = |task: Json| {
            let name = task.get("Name").and_then(Json::as_str).unwrap_or_default().to_string();
            group_of_task(&name, task)
        };
        let mut groups: Vec<Json> = lone.into_iter().map(of_task).collect();
        if let Some(Json::Array(written)) = job.shift_remove("TaskGroups") {
            groups.extend(written);
        }
        job.insert("TaskGroups".to_string(), Json::Array(groups));
    }
    let of_job = job.shift_remove(VAULT_BELOW);
    if let Some(Json::Array(groups)) = job.get_mut("TaskGroups") {
        for group in groups.iter_mut().filter_map(Json::as_object_mut) {
            let of_group = group.shift_remove(VAULT_BELOW);
            let inherited = of_group.or_else(|| of_job.clone());
            let Some(Json::Array(tasks)) = group.get_mut("Tasks") else { continue };
            for task in tasks.iter_mut().filter_map(Json::as_object_mut) {
                if let (Some(vault), Some(Json::Null)) = (&inherited, task.get("Vault")) {
                    task.insert("Vault".to_string(), vault.clone());
                }
            }
        }
    }
}

/// Decodes tasks directly in the job: each becomes a group.
pub(super) fn job_tasks(decoder: &mut Decoder<'_>, blocks: &[&Instance<'_>], scope: &Scope<'_>, job: &mut Object) {
    let tasks: Vec<Json> = blocks.iter().map(|block| Json::Object(decoder.object(&TASK, block, scope))).collect();
    if !tasks.is_empty() {
        job.insert(JOB_TASKS.to_string(), Json::Array(tasks));
    }
}

pub(super) fn job_vault(decoder: &mut Decoder<'_>, blocks: &[&Instance<'_>], scope: &Scope<'_>, job: &mut Object) {
    if let [first, second, ..] = blocks {
        let detail = format!(
            "Only one block of type \"vault\" is allowed. Previous definition was at {}.",
            first.header.shown(decoder.file)
        );
        decoder.report(second.header, "Duplicate vault block", detail);
        return;
    }
    group_vault(decoder, blocks, scope, job);
}

/// Decodes vault blocks; of several the last one wins.
pub(super) fn group_vault(decoder: &mut Decoder<'_>, blocks: &[&Instance<'_>], scope: &Scope<'_>, parent: &mut Object) {
    for block in blocks {
        let vault = decoder.object(&VAULT, block, scope);
        parent.insert(VAULT_BELOW.to_string(), Json::Object(vault));
    }
}

// ---- constraints and affinities

const SHORTHANDS: [&str; 4] = ["version", "semver", "regexp", "set_contains"];

pub(super) fn constraints(decoder: &mut Decoder<'_>, blocks: &[&Instance<'_>], scope: &Scope<'_>, parent: &mut Object) {
    const TEXTS: [&str; 12] = [
        "attribute",
        "operator",
        "value",
        "version",
        "semver",
        "regexp",
        "set_contains",
        "set_contains_all",
        "set_contains_any",
        "is_set",
        "is_not_set",
        "distinct_property",
    ];
    let mut names = TEXTS.to_vec();
    names.push("distinct_hosts");
    let items = blocks.iter().map(|block| {
        block.within(scope, |scope| {
            decode::unexpected(block.body, &names, &[], &mut decoder.found);
            let mut text = |name: &str| attribute_text(decoder, block.body, name, scope);
            let mut target = text("attribute").unwrap_or_default();
            let mut value = text("value").unwrap_or_default();
            let mut operand = text("operator").unwrap_or_default();
            for name in SHORTHANDS {
                if let Some(given) = text(name).filter(|given| !given.is_empty()) {
                    operand = name.to_string();
                    value = given;
                }
            }
            let property = text("distinct_property").filter(|given| !given.is_empty());
            if let Some(Value::Bool(truth)) = converted(decoder, block.body, "distinct_hosts", &Type::Bool, scope) {
                operand = "distinct_hosts".to_string();
                value = truth.to_string();
            }
            if let Some(property) = property {
                operand = "distinct_property".to_string();
                target = property;
            }
            if operand.is_empty() {
                operand = "=".to_string();
            }
            json!({ "LTarget": target, "RTarget": value, "Operand": operand })
        })
    });
    let items: Vec<Json> = items.collect();
    parent.insert("Constraints".to_string(), list_or_null(items));
}

pub(super) fn affinities(decoder: &mut Decoder<'_>, blocks: &[&Instance<'_>], scope: &Scope<'_>, parent: &mut Object) {
    const NAMES: [&str; 10] = [
        "attribute",
        "operator",
        "value",
        "version",
        "semver",
        "regexp",
        "set_contains",
        "set_contains_all",
        "set_contains_any",
        "weight",
    ];
    let items = blocks.iter().map(|block| {
        block.within(scope, |scope| {
            decode::unexpected(block.body, &NAMES, &[], &mut decoder.found);
            let mut text = |name: &str| attribute_text(decoder, block.body, name, scope);
            let target = text("attribute").unwrap_or_default();
            let mut value = text("value").unwrap_or_default();
            let mut operand = text("operator").unwrap_or_default();
            for name in SHORTHANDS.into_iter().chain(["set_contains_any", "set_contains_all"]) {
                if let Some(given) = text(name).filter(|given| !given.is_empty()) {
                    operand = name.to_string();
                    value = given;
                }
            }
            if operand.is_empty() {
                operand = "=".to_string();
            }
            let weight = match converted(decoder, block.body, "weight", &Type::Number, scope) {
                // The integer part is truncated to its lowest eight bits.
                Some(Value::Number(number)) => json!(number.as_f64().trunc() as i64 as i8),
                _ => Json::Null,
            };
            json!({ "LTarget": target, "RTarget": value, "Operand": operand, "Weight": weight })
        })
    });
    let items: Vec<Json> = items.collect();
    parent.insert("Affinities".to_string(), list_or_null(items));
}

fn attribute_text(decoder: &mut Decoder<'_>, body: &Body, name: &str, scope: &Scope<'_>) -> Option<String> {
    match converted(decoder, body, name, &Type::Text, scope) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn converted(decoder: &mut Decoder<'_>, body: &Body, name: &str, wanted: &Type, scope: &Scope<'_>) -> Option<Value> {
    let attribute: &Attribute = body.attribute(name)?;
    let value = decoder.value(&attribute.expression, scope);
    match convert(&value, wanted) {
        Ok(Value::Null | Value::Unknown) => None,
        Ok(value) => Some(value),
        Err(reason) => {
            decoder.report(
                attribute.expression.range(),
                "Incorrect attribute value type",
                format!("Inappropriate value for attribute {name:?}: {reason}."),
            );
            None
        }
    }
}

// ---- scaling

/// Types of scaling policies of tasks.
pub(super) const CPU_SCALING: &str = "vertical_cpu";
pub(super) const MEMORY_SCALING: &str = "vertical_mem";

pub(super) fn group_scaling_type(decoder: &mut Decoder<'_>, body: &Body, scaling: &mut Object) {
    let given = scaling.get("Type").and_then(Json::as_str).unwrap_or_default();
    if given.is_empty() || given == spec::GROUP_SCALING_TYPE {
        scaling.insert("Type".to_string(), json!(spec::GROUP_SCALING_TYPE));
        return;
    }
    if let Some(attribute) = body.attribute("type") {
        let detail = format!("task group scaling policy had invalid type: {given:?}");
        decoder.report(attribute.expression.range(), "Invalid group scaling type", detail);
    }
}

/// Decodes the scaling policies of a task: one for `cpu`, one for `mem`, in any case.
pub(super) fn task_scaling(decoder: &mut Decoder<'_>, blocks: &[&Instance<'_>], scope: &Scope<'_>, task: &mut Object) {
    let mut policies = Vec::new();
    let mut seen: Vec<(String, Range)> = Vec::new();
    for block in blocks {
        let resource = block.label().to_lowercase();
        let kind = match resource.as_str() {
            "cpu" => CPU_SCALING,
            "mem" => MEMORY_SCALING,
            _ => {
                let range = block.labels.first().map_or(block.header, |(_, range)| *range);
                decoder.report(range, "Invalid scaling policy name", "scaling policy name must be \"cpu\" or \"mem\"");
                continue;
            }
        };
        if let Some((_, first)) = seen.iter().find(|(earlier, _)| *earlier == resource) {
            let place = first.shown(decoder.file);
            let detail = format!("Only one scaling {resource} block is allowed. Another was defined at {place}.");
            decoder.report(block.header, &format!("Duplicate scaling {resource:?} block"), detail);
            continue;
        }
        seen.push((resource, block.header));
        let mut policy = decoder.object(&TASK_SCALING, block, scope);
        let given = policy.get("Type").and_then(Json::as_str).unwrap_or_default();
        if !given.is_empty() && given != kind {
            let detail = format!("Invalid policy type, expected {given:?} but found {kind:?}");
            decoder.report(block.header, "Invalid scaling policy type", detail);
        }
        policy.insert("Type".to_string(), json!(kind));
        policies.push(Json::Object(policy));
    }
    task.insert("ScalingPolicies".to_string(), list_or_null(policies));
}

// ---- small rules

/// Adds the member only if the block is present.
pub(super) fn csi_plugin(decoder: &mut Decoder<'_>, blocks: &[&Instance<'_>], scope: &Scope<'_>, task: &mut Object) {
    if let Some(block) = decoder.only("csi_plugin", blocks) {
        let plugin = decoder.object(&CSI_PLUGIN, block, scope);
        task.insert("CSIPluginConfig".to_string(), Json::Object(plugin));
    }
}

/// Sets the type of a given schedule, which is always cron.
pub(super) fn spec_type(_decoder: &mut Decoder<'_>, _body: &Body, periodic: &mut Object) {
    let given = ["Spec", "Specs"].iter().any(|key| periodic.get(*key).is_some_and(|value| !value.is_null()));
    if given {
        periodic.insert("SpecType".to_string(), json!("cron"));
    }
}

/// Sorts ports: those with a number are reserved, the others dynamic. `reserved_ports` counts only where there is no
/// `port`.
pub(super) fn sort_ports(_decoder: &mut Decoder<'_>, _body: &Body, network: &mut Object) {
    sorted_ports(network);
}

pub(super) fn sorted_ports(network: &mut Object) {
    let Some(Json::Array(ports)) = network.get("DynamicPorts").cloned() else { return };
    let (reserved, dynamic): (Vec<Json>, Vec<Json>) =
        ports.into_iter().partition(|port| port.get("Value").and_then(Json::as_i64).is_some_and(|value| value > 0));
    network.insert("ReservedPorts".to_string(), list_or_null(reserved));
    network.insert("DynamicPorts".to_string(), list_or_null(dynamic));
}
