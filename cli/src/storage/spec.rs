//! Specifications of volumes, as bodies of requests.

use serde_json::{Map, Value, json};
use songline_lang::config;

use crate::client::text;

/// Factors of sizes.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("k", 1000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("p", 1_000_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
    ("pi", 1 << 50),
];

/// A specification: the type that it names, and the volume of a request.
pub(super) struct Spec {
    pub kind: String,
    pub volume: Value,
}

/// Reads a specification in HCL 1 or JSON.
pub(super) fn read(source: &str) -> Result<Spec, String> {
    let is_json = source.trim_start().starts_with('{');
    let document = if is_json {
        serde_json::from_str(source).map_err(|error| error.to_string())
    } else {
        config::parse(source).map_err(|error| error.to_string())
    };
    let document: Value = document.map_err(|error| format!("Error parsing the volume definition: {error}"))?;
    let root = document.as_object().ok_or("Error parsing the volume definition: it is no object")?;
    let wrong = |reason: String| format!("Error decoding the volume definition: {reason}");
    let mut kind = String::new();
    let mut out = Map::new();
    for (key, value) in root {
        match key.as_str() {
            "type" => text(value).clone_into(&mut kind),
            "id" => set(&mut out, "ID", value),
            "name" => set(&mut out, "Name", value),
            "namespace" => set(&mut out, "Namespace", value),
            "external_id" => set(&mut out, "ExternalID", value),
            "plugin_id" => set(&mut out, "PluginID", value),
            "snapshot_id" => set(&mut out, "SnapshotID", value),
            "clone_id" => set(&mut out, "CloneID", value),
            "access_mode" => set(&mut out, "AccessMode", value),
            "attachment_mode" => set(&mut out, "AttachmentMode", value),
            "capacity_min" => set(&mut out, "RequestedCapacityMin", &json!(size(key, value).map_err(wrong)?)),
            "capacity_max" => set(&mut out, "RequestedCapacityMax", &json!(size(key, value).map_err(wrong)?)),
            "secrets" => set(&mut out, "Secrets", &texts(value)),
            "parameters" => set(&mut out, "Parameters", &texts(value)),
            "context" => set(&mut out, "Context", &texts(value)),
            "capability" => {
                let one = |block: &Value| json!({"AccessMode": block["access_mode"], "AttachmentMode": block["attachment_mode"]});
                set(&mut out, "RequestedCapabilities", &blocks(value).map(one).collect());
            }
            "mount_options" => {
                let one =
                    |block: &Value| json!({"FSType": text(&block["fs_type"]), "MountFlags": block["mount_flags"]});
                set(&mut out, "MountOptions", &blocks(value).next_back().map(one).unwrap_or_default());
            }
            "topology_request" => {
                let one = |block: &Value| {
                    json!({
                        "Required": topologies(&block["required"]),
                        "Preferred": topologies(&block["preferred"]),
                    })
                };
                set(&mut out, "RequestedTopologies", &blocks(value).next_back().map(one).unwrap_or_default());
            }
            other => return Err(wrong(format!("invalid key: {other}"))),
        }
    }
    Ok(Spec { kind, volume: Value::Object(out) })
}

fn set(out: &mut Map<String, Value>, key: &str, value: &Value) {
    out.insert(key.to_owned(), value.clone());
}

/// The blocks of a name: the parser makes lists of them.
fn blocks(value: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    match value {
        Value::Array(blocks) => blocks.iter().collect::<Vec<_>>().into_iter(),
        block => vec![block].into_iter(),
    }
}

/// A block of texts, such as `secrets`.
fn texts(value: &Value) -> Value {
    let pairs = blocks(value).filter_map(Value::as_object).flatten();
    pairs.map(|(key, value)| (key.clone(), json!(plain(value)))).collect::<Map<_, _>>().into()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn topologies(value: &Value) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    let topologies = blocks(value).flat_map(|block| blocks(&block["topology"]));
    topologies.map(|topology| json!({"Segments": texts(&topology["segments"])})).collect()
}

/// A size in bytes: a number, or a text such as `10GiB`.
fn size(key: &str, value: &Value) -> Result<u64, String> {
    if let Some(bytes) = value.as_u64() {
        return Ok(bytes);
    }
    let written = plain(value);
    let wrong = || format!("{key}: {written:?} is not a size such as \"10GiB\"");
    let compact: String = written.chars().filter(|c| !c.is_whitespace() && *c != ',').collect();
    let at = compact.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(compact.len());
    let (number, unit) = compact.split_at(at);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.to_ascii_lowercase();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let bytes = number * *factor as f64;
    if bytes.is_finite() && bytes < 2_f64.powi(63) { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_becomes_the_volume_of_a_request() {
        let spec = read(
            r#"
            id = "db"
            type = "csi"
            plugin_id = "disks"
            capacity_min = "10GiB"
            capacity_max = "1.5 TB"
            capability {
              access_mode = "single-node-writer"
              attachment_mode = "file-system"
            }
            capability {
              access_mode = "single-node-reader-only"
              attachment_mode = "file-system"
            }
            mount_options {
              fs_type = "ext4"
              mount_flags = ["noatime"]
            }
            secrets { user = "u" }
            topology_request {
              required {
                topology { segments { rack = "r1" } }
                topology { segments { rack = "r2" } }
              }
            }
            "#,
        )
        .expect("is a specification");
        assert_eq!(spec.kind, "csi");
        assert_eq!(
            spec.volume,
            json!({
                "ID": "db", "PluginID": "disks",
                "RequestedCapacityMin": 10_737_418_240_u64, "RequestedCapacityMax": 1_500_000_000_000_u64,
                "RequestedCapabilities": [
                    {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"},
                    {"AccessMode": "single-node-reader-only", "AttachmentMode": "file-system"},
                ],
                "MountOptions": {"FSType": "ext4", "MountFlags": ["noatime"]},
                "Secrets": {"user": "u"},
                "RequestedTopologies": {
                    "Required": [{"Segments": {"rack": "r1"}}, {"Segments": {"rack": "r2"}}],
                    "Preferred": null,
                },
            })
        );
    }

    #[test]
    fn wrong_sizes_and_keys_are_refused() {
        for (source, reason) in [
            ("capacity_min = \"many\"", "capacity_min: \"many\" is not a size such as \"10GiB\""),
            ("capacity_min = \"1XB\"", "capacity_min: \"1XB\" is not a size such as \"10GiB\""),
            ("nope = 1", "invalid key: nope"),
        ] {
            let error = read(source).err().expect("is refused");
            assert_eq!(error, format!("Error decoding the volume definition: {reason}"));
        }
    }
}
