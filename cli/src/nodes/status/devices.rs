//! Devices of a node: their measured use, and the attributes of their groups.

use serde_json::Value;

use super::keys;
use crate::client::text;
use crate::jobs::lists::items;
use crate::layout::{block, section};

/// `vendor/type/name` of a group of devices.
fn group_of(group: &Value) -> String {
    let parts = ["Vendor", "Type", "Name"].map(|key| text(&group[key]));
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/")
}

/// The measured devices, each with its name `vendor/type/name[id]`, by name.
fn measured(stats: &Value) -> Vec<(String, &Value)> {
    let mut devices = Vec::new();
    for group in items(&stats["DeviceStats"]) {
        let name = group_of(group);
        for (id, device) in group["InstanceStats"].as_object().into_iter().flatten() {
            devices.push((format!("{name}[{id}]"), device));
        }
    }
    devices.sort_by(|(left, _), (right, _)| left.cmp(right));
    devices
}

/// Prints a line for each measured device, if there are any.
pub(super) fn utilization(stats: &Value) {
    let lines = summaries(stats);
    if !lines.is_empty() {
        section("Device Resource Utilization", &block(&lines));
    }
}

fn summaries(stats: &Value) -> Vec<(String, String)> {
    measured(stats).into_iter().map(|(name, device)| (name, figure(&device["Summary"]))).collect()
}

/// Prints everything that is measured of each device, if there are any.
pub(super) fn detailed(stats: &Value) {
    let devices: Vec<String> = measured(stats)
        .into_iter()
        .map(|(name, device)| {
            let mut pairs = vec![("Device".to_owned(), name)];
            figures(&device["Stats"], "", &mut pairs);
            block(&pairs)
        })
        .collect();
    if !devices.is_empty() {
        section("Device Stats", &devices.join("\n\n"));
    }
}

/// The figures of an object; names of nested objects stand before those of their figures: `memory.used`.
fn figures(object: &Value, prefix: &str, pairs: &mut Vec<(String, String)>) {
    for name in keys(&object["Attributes"]) {
        pairs.push((format!("{prefix}{name}"), figure(&object["Attributes"][name])));
    }
    for name in keys(&object["Nested"]) {
        figures(&object["Nested"][name], &format!("{prefix}{name}."), pairs);
    }
}

/// A measured value: `256 / 11441 MiB`, `true`, a text.
fn figure(value: &Value) -> String {
    let ratio = |numerator: &str, denominator: &str| {
        let top = shown(&value[numerator])?;
        Some(shown(&value[denominator]).map_or_else(|| top.clone(), |bottom| format!("{top} / {bottom}")))
    };
    let number =
        ratio("FloatNumeratorVal", "FloatDenominatorVal").or_else(|| ratio("IntNumeratorVal", "IntDenominatorVal"));
    with_unit(number.or_else(|| shown(&value["StringVal"])).or_else(|| shown(&value["BoolVal"])), value)
}

/// The text of a value; `None` of null.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => {
            let text = other.to_string();
            // Go writes a floating-point number without a fraction as a whole one.
            Some(text.strip_suffix(".0").map(str::to_owned).unwrap_or(text))
        }
    }
}

fn with_unit(text: Option<String>, value: &Value) -> String {
    let (text, unit) = (text.unwrap_or_default(), self::text(&value["Unit"]));
    if text.is_empty() || unit.is_empty() { text } else { format!("{text} {unit}") }
}

/// Prints the attributes of each group of devices, if there are any.
pub(super) fn groups(node: &Value) {
    let groups: Vec<String> = items(&node["NodeResources"]["Devices"]).iter().map(attributes).collect();
    if !groups.is_empty() {
        section("Device Group Attributes", &groups.join("\n\n"));
    }
}

fn attributes(group: &Value) -> String {
    let mut pairs = vec![("Device Group", group_of(group))];
    for name in keys(&group["Attributes"]) {
        let value = &group["Attributes"][name];
        let text = ["Float", "Int", "String", "Bool"].iter().find_map(|key| shown(&value[*key]));
        pairs.push((name, with_unit(text, value)));
    }
    block(&pairs)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn stats() -> Value {
        let of = |used: i64| json!({ "IntNumeratorVal": used, "IntDenominatorVal": 11441, "Unit": "MiB" });
        json!({ "DeviceStats": [{
            "Vendor": "nvidia", "Type": "gpu", "Name": "Tesla K80",
            "InstanceStats": {
                "GPU-2": { "Summary": of(7), "Stats": { "Attributes": null, "Nested": null } },
                "GPU-1": {
                    "Summary": of(0),
                    "Stats": {
                        "Attributes": { "Temperature": { "FloatNumeratorVal": 36.5, "Unit": "C" } },
                        "Nested": { "ECC": { "Attributes": { "enabled": { "BoolVal": true } } } },
                    },
                },
            },
        }] })
    }

    #[test]
    fn devices_have_a_line_and_a_block() {
        expect![[r#"
            nvidia/gpu/Tesla K80[GPU-1] = 0 / 11441 MiB
            nvidia/gpu/Tesla K80[GPU-2] = 7 / 11441 MiB"#]]
        .assert_eq(&block(&summaries(&stats())));
        let mut pairs = Vec::new();
        figures(&measured(&stats())[0].1["Stats"], "", &mut pairs);
        expect![[r#"
            Temperature = 36.5 C
            ECC.enabled = true"#]]
        .assert_eq(&block(&pairs));
        assert!(summaries(&json!({ "DeviceStats": null })).is_empty());
    }

    #[test]
    fn groups_have_their_attributes() {
        let group = json!({
            "Vendor": "nvidia", "Type": "gpu", "Name": "Tesla K80",
            "Attributes": {
                "memory": { "Float": null, "Int": 11441, "String": null, "Bool": null, "Unit": "MiB" },
                "driver": { "String": "390.87" },
            },
        });
        expect![[r#"
            Device Group = nvidia/gpu/Tesla K80
            driver       = 390.87
            memory       = 11441 MiB"#]]
        .assert_eq(&attributes(&group));
    }
}
