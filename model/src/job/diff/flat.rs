//! A row as names and texts: its own scalar fields, and its maps of texts as `Name[key]`. Callers add nested objects,
//! and scalars that may be absent.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{DiffType, FieldDiff};
use crate::Str;

/// Fields that are maps of texts; every other object is diffed separately.
const MAPS: [&str; 8] =
    ["Meta", "Env", "CanaryMeta", "TaggedAddresses", "GetterOptions", "GetterHeaders", "Target", "Header"];

/// Names and texts of a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Flat(pub(super) BTreeMap<String, String>);

impl Flat {
    /// The fields of `row` except those in `filter`; empty if the row is absent.
    pub(super) fn of<T: Serialize>(row: Option<&T>, filter: &[&str]) -> Self {
        let mut flat = Self::default();
        let Some(row) = row else { return flat };
        let Value::Object(fields) = serde_json::to_value(row).expect("rows have texts for keys") else { return flat };
        for (name, value) in fields {
            if filter.contains(&name.as_str()) {
                continue;
            }
            match value {
                Value::Object(map) if MAPS.contains(&name.as_str()) => {
                    for (key, value) in &map {
                        if let Some(text) = scalar(value) {
                            flat.0.insert(format!("{name}[{key}]"), text);
                        }
                    }
                }
                value => {
                    if let Some(text) = scalar(&value) {
                        flat.0.insert(name, text);
                    }
                }
            }
        }
        flat
    }

    /// Flattens an arbitrary tree, with names such as `a[b][0]`.
    pub(super) fn of_tree(map: &BTreeMap<Str, Value>) -> Self {
        let mut flat = Self::default();
        for (key, value) in map {
            flat.add_tree(key.to_string(), value);
        }
        flat
    }

    fn add_tree(&mut self, name: String, value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    self.add_tree(format!("{name}[{key}]"), value);
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    self.add_tree(format!("{name}[{index}]"), value);
                }
            }
            Value::Null => {
                self.0.insert(name, "nil".into());
            }
            // In an arbitrary tree the reference treats every number as a float.
            Value::Number(number) => {
                self.0.insert(name, float(number.as_f64().unwrap_or_default()));
            }
            Value::Bool(_) | Value::String(_) => {
                if let Some(text) = scalar(value) {
                    self.0.insert(name, text);
                }
            }
        }
    }

    /// Adds an optional scalar; an absent one is the empty text.
    pub(super) fn set(&mut self, name: &str, value: Option<impl ToString>) {
        self.0.insert(name.into(), value.map(|value| value.to_string()).unwrap_or_default());
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A float in the fewest digits, with an exponent from a million up and below a ten-thousandth.
fn float(value: f64) -> String {
    let exponent = if value == 0.0 {
        0
    } else {
        format!("{value:e}").rsplit('e').next().and_then(|text| text.parse::<i32>().ok()).unwrap_or(0)
    };
    if (-4..21).contains(&exponent) && exponent < 6 || value == 0.0 {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let (digits, _) = text.split_once('e').unwrap_or((&text, ""));
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The differences of two rows, by name. A contextual diff includes equal fields.
pub(super) fn fields(old: &Flat, new: &Flat, contextual: bool) -> Vec<FieldDiff> {
    let names: std::collections::BTreeSet<&String> = old.0.keys().chain(new.0.keys()).collect();
    let text = |flat: &Flat, name: &str| Str::from(flat.0.get(name).map(String::as_str).unwrap_or_default());
    names.into_iter().filter_map(|name| field(name, text(old, name), text(new, name), contextual)).collect()
}

/// The difference of one field; the empty text stands for an absent field.
pub(super) fn field(name: &str, old: Str, new: Str, contextual: bool) -> Option<FieldDiff> {
    let kind = match (old.as_str(), new.as_str()) {
        (old, new) if old == new => DiffType::None,
        ("", _) => DiffType::Added,
        (_, "") => DiffType::Deleted,
        _ => DiffType::Edited,
    };
    (contextual || kind != DiffType::None).then(|| FieldDiff { kind, name: name.into(), old, new, annotations: None })
}
