//! Blocks with special rules in HCL 1, and the allowed repetitions of blocks.

use serde_json::{Value as Json, json};
use songline_model::spec;

use super::{Decoded, Place, Refusal, blocks, check_keys, decoding, members, object, refuse, weak};
use crate::hcl1::Item;
use crate::jobspec::Object;
use crate::jobspec::decode::list_or_null;
use crate::jobspec::schema::{CSI_PLUGIN, Kind, TASK, TASK_SCALING, VAULT};
use crate::jobspec::special::{CPU_SCALING, JOB_TASKS, MEMORY_SCALING, VAULT_BELOW, sorted_ports};

/// Prefixes an error with the path to its block, unless the error of a port has it already.
pub(super) fn way_of(refusal: Refusal, block: &str, way: &str) -> Refusal {
    let told = match &refusal {
        Refusal::One(text) => text.starts_with("network, "),
        Refusal::Many(texts) => texts.iter().any(|text| text.starts_with("network, ")),
    };
    if block == "network" && told { refusal } else { refusal.within(way) }
}

/// Refuses blocks that are repeated too often.
pub(super) fn check_repeats(items: &[Item], place: &Place<'_>) -> Decoded<()> {
    let count = |name: &str| blocks(items, name).len();
    let twice = |name: &str| count(name) > 1;
    match place.block {
        "job" => {
            for name in ["update", "migrate", "reschedule", "parameterized"] {
                if twice(name) {
                    return refuse(format!("{name} -> only one '{name}' block allowed"));
                }
            }
            if twice("periodic") {
                return refuse("periodic -> only one 'periodic' block allowed per job");
            }
            repeated_label(items, "group")
                .map_or(Ok(()), |label| refuse(format!("group: group '{label}' defined more than once")))
        }
        "group" => {
            if twice("network") {
                return refuse("only one 'network' resource allowed");
            }
            repeated_label(items, "task").map_or(Ok(()), |label| {
                refuse(format!("'{}', task: task '{label}' defined more than once", place.label))
            })
        }
        "task" if twice("restart") => refuse("restart -> only one 'restart' block allowed"),
        "task" if twice("resources") => refuse("resources -> only one 'resource' block allowed per task"),
        "task" if twice("logs") => {
            refuse(format!("only one logs block is allowed in a Task. Number of logs block found: {}", count("logs")))
        }
        "template" if count("wait") > 0 => refuse(decoding(&["'wait' expected a map, got 'slice'".to_string()])),
        "template" if twice("change_script") => {
            refuse(format!("change_script -> expected single block, got {}", count("change_script")))
        }
        "service" if twice("connect") => refuse("connect '': cannot have more than 1 connect block"),
        "service" if twice("check_restart") => refuse("check_restart '': cannot have more than 1 check_restart"),
        "multiregion" if count("region") == 0 => refuse("'multiregion' requires one or more 'region' blocks"),
        "multiregion" => repeated_label(items, "region")
            .map_or(Ok(()), |label| refuse(format!("regions -> region '{label}' defined more than once"))),
        "spread" if blocks(items, "target").iter().any(|(label, _)| label.is_empty()) => {
            refuse("target -> missing spread target")
        }
        "spread" => repeated_label(items, "target")
            .map_or(Ok(()), |label| refuse(format!("target -> target '{label}' defined more than once"))),
        "network" => check_ports(items),
        "device" if place.label.is_empty() => refuse("missing device name"),
        _ => Ok(()),
    }
}

fn repeated_label<'i>(items: &'i [Item], name: &str) -> Option<&'i str> {
    let labels: Vec<&str> = blocks(items, name).into_iter().map(|(label, _)| label).collect();
    labels.iter().enumerate().find(|(at, label)| labels[..*at].contains(label)).map(|(_, label)| *label)
}

fn check_ports(items: &[Item]) -> Decoded<()> {
    let mut seen: Vec<String> = Vec::new();
    for (label, node) in blocks(items, "port") {
        if label.is_empty() || !label.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            return refuse("network, ports -> Port label does not conform to naming requirements ^[a-zA-Z0-9_]+$");
        }
        let folded = label.to_lowercase();
        if seen.contains(&folded) {
            return refuse(format!("network, ports -> found a port label collision: {label}"));
        }
        seen.push(folded);
        check_keys(members(node)?, &["static", "to", "host_network"], "network, ports -> ")?;
    }
    Ok(())
}

/// Checks that run after all members were decoded.
pub(super) fn after(block: &str, items: &[Item], object: &mut Object) -> Decoded<()> {
    match block {
        "periodic" => {
            let given = ["Spec", "Specs"].iter().any(|key| object.get(*key).is_some_and(|value| !value.is_null()));
            if given {
                object.insert("SpecType".to_string(), json!("cron"));
            }
        }
        "network" => sorted_ports(object),
        "target" => {
            if let Some(value) = attribute(items, "value") {
                object.insert("Value".to_string(), json!(value));
            }
        }
        "template" => {
            // The older language says "no owner" where the newer one says nothing.
            for key in ["Uid", "Gid"] {
                if object.get(key) == Some(&Json::Null) {
                    object.insert(key.to_string(), json!(-1));
                }
            }
        }
        "scaling" => {
            if !items.iter().any(|item| item.keys.first().is_some_and(|key| key == "max")) {
                return refuse("missing 'max'");
            }
            let kind = object.get("Type").and_then(Json::as_str).unwrap_or_default();
            if !kind.is_empty() && kind != spec::GROUP_SCALING_TYPE {
                return refuse(format!("task group scaling policy had invalid type: {kind:?}"));
            }
            object.insert("Type".to_string(), json!(spec::GROUP_SCALING_TYPE));
        }
        _ => {}
    }
    Ok(())
}

/// Decodes the blocks of one kind into their parent.
pub(super) fn block(name: &str, items: &[Item], place: &Place<'_>, parent: &mut Object) -> Decoded<()> {
    let found = blocks(items, name);
    match (name, place.block) {
        ("constraint", _) => {
            let list = found.into_iter().filter_map(|(_, node)| constraint(members(node).ok()?).transpose());
            parent.insert("Constraints".to_string(), list_or_null(list.collect::<Decoded<Vec<Json>>>()?));
        }
        ("affinity", _) => {
            let list = found.into_iter().map(|(_, node)| members(node).and_then(affinity));
            parent.insert("Affinities".to_string(), list_or_null(list.collect::<Decoded<Vec<Json>>>()?));
        }
        ("task", _) => {
            let mut tasks = Vec::new();
            for (label, node) in found {
                let inside = Place { block: "task", label, service: "" };
                let task = members(node).and_then(|items| object(&TASK, items, &inside));
                tasks.push(Json::Object(task.map_err(|refusal| refusal.within(&format!("task: '{label}', ")))?));
            }
            if !tasks.is_empty() {
                parent.insert(JOB_TASKS.to_string(), Json::Array(tasks));
            }
        }
        ("vault", _) => {
            for (label, node) in found {
                let inside = Place { block: "vault", label, service: "" };
                let vault = members(node).and_then(|items| object(&VAULT, items, &inside));
                parent.insert(
                    VAULT_BELOW.to_string(),
                    Json::Object(vault.map_err(|refusal| refusal.within("vault -> "))?),
                );
            }
        }
        ("csi_plugin", _) => {
            if let Some((label, node)) = found.last() {
                let inside = Place { block: "csi_plugin", label, service: "" };
                let plugin = object(&CSI_PLUGIN, members(node)?, &inside)?;
                parent.insert("CSIPluginConfig".to_string(), Json::Object(plugin));
            }
        }
        ("scaling", _) => {
            parent.insert("ScalingPolicies".to_string(), task_scaling(items)?);
        }
        _ => {}
    }
    Ok(())
}

fn task_scaling(items: &[Item]) -> Decoded<Json> {
    let mut policies = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (label, node) in blocks(items, "scaling") {
        let kind = match label {
            "" => return refuse("scaling -> task scaling policy missing name"),
            "cpu" => CPU_SCALING,
            "mem" => MEMORY_SCALING,
            other => return refuse(format!("scaling[{other}] -> scaling policy name must be \"cpu\" or \"mem\"")),
        };
        if seen.contains(&label) {
            return refuse(format!("scaling[{label}] -> scaling policy cannot be defined more than once"));
        }
        seen.push(label);
        let inside = Place { block: "task scaling", label, service: "" };
        let policy = object(&TASK_SCALING, members(node)?, &inside);
        let mut policy = policy.map_err(|refusal| refusal.within(&format!("scaling[{label}] -> ")))?;
        policy.insert("Type".to_string(), json!(kind));
        policies.push(Json::Object(policy));
    }
    Ok(list_or_null(policies))
}

// ---- constraints and affinities

fn attribute(items: &[Item], name: &str) -> Option<String> {
    let item = items.iter().rfind(|item| item.keys.first().is_some_and(|key| key == name))?;
    weak::convert(&item.value, Kind::Text, name).ok()?.as_str().map(str::to_string)
}

/// Decodes a constraint; `None` if it disables itself.
fn constraint(items: &[Item]) -> Decoded<Option<Json>> {
    const KNOWN: [&str; 9] = [
        "attribute",
        "distinct_hosts",
        "distinct_property",
        "operator",
        "regexp",
        "set_contains",
        "value",
        "version",
        "semver",
    ];
    check_keys(items, &KNOWN, "constraint -> ")?;
    let mut target = attribute(items, "attribute").unwrap_or_default();
    let mut value = attribute(items, "value").unwrap_or_default();
    let mut operand = attribute(items, "operator").unwrap_or_default();
    for name in ["version", "semver", "regexp", "set_contains"] {
        if let Some(given) = attribute(items, name) {
            operand = name.to_string();
            value = given;
        }
    }
    if let Some(given) = attribute(items, "distinct_hosts") {
        match weak::parse_bool(&given) {
            Some(true) => operand = "distinct_hosts".to_string(),
            Some(false) => return Ok(None),
            None => {
                let reason = weak::no_bool(&given);
                return refuse(format!("constraint -> distinct_hosts should be set to true or false; {reason}"));
            }
        }
    }
    if let Some(property) = attribute(items, "distinct_property") {
        operand = "distinct_property".to_string();
        target = property;
    }
    if operand.is_empty() {
        operand = "=".to_string();
    }
    Ok(Some(json!({ "LTarget": target, "RTarget": value, "Operand": operand })))
}

fn affinity(items: &[Item]) -> Decoded<Json> {
    const KNOWN: [&str; 10] = [
        "attribute",
        "operator",
        "regexp",
        "set_contains",
        "set_contains_any",
        "set_contains_all",
        "value",
        "version",
        "semver",
        "weight",
    ];
    check_keys(items, &KNOWN, "affinity -> ")?;
    let mut value = attribute(items, "value").unwrap_or_default();
    let mut operand = attribute(items, "operator").unwrap_or_default();
    for name in ["version", "semver", "regexp", "set_contains", "set_contains_any", "set_contains_all"] {
        if let Some(given) = attribute(items, name) {
            operand = name.to_string();
            value = given;
        }
    }
    if operand.is_empty() {
        operand = "=".to_string();
    }
    let weight = match items.iter().rfind(|item| item.keys.first().is_some_and(|key| key == "weight")) {
        Some(item) => weak::convert(&item.value, Kind::Small, "weight")
            .map_err(|reason| Refusal::One(format!("affinity -> {}", decoding(&[reason]))))?,
        None => Json::Null,
    };
    Ok(json!({
        "LTarget": attribute(items, "attribute").unwrap_or_default(),
        "RTarget": value,
        "Operand": operand,
        "Weight": weight,
    }))
}
