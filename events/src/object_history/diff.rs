//! Differences between two versions of an object, field by field.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields::{self, Field};

/// Fields that every change sets. Answers show the index of the change anyway.
const IMPLIED: [&str; 1] = ["ModifyIndex"];
const NULL: &str = "null";

/// One field of an object, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct FieldChange {
    /// Path of the field: names and `[positions]`, such as `TaskGroups[0].Count`.
    pub path: String,
    /// Value before; null when the field was absent.
    pub old: Value,
    /// Value after; null when the field is absent.
    pub new: Value,
}

/// A text that is not the JSON of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the JSON of an object")]
pub(super) struct Malformed;

/// Appends the fields that differ, as the JSON of a list of [`FieldChange`]. False: none does. Only those whose texts
/// differ are parsed.
pub(super) fn between(before: &str, after: &str, out: &mut Vec<u8>) -> Result<bool, Malformed> {
    let (old, new) = (fields::of_object(before)?, fields::of_object(after)?);
    let mut changes = Vec::new();
    let mut changed = |name: &str, before: &str, after: &str| -> Result<(), Malformed> {
        let mut path: String = parsed(&format!("\"{name}\""))?;
        compare(&mut path, &parsed(before)?, &parsed(after)?, &mut changes);
        Ok(())
    };
    for (at, (name, value)) in new.iter().enumerate().filter(|(_, (name, _))| !IMPLIED.contains(name)) {
        let before = find(&old, at, name);
        if before != Some(*value) {
            changed(name, before.unwrap_or(NULL), value)?;
        }
    }
    for (at, (name, value)) in old.iter().enumerate().filter(|(_, (name, _))| !IMPLIED.contains(name)) {
        if find(&new, at, name).is_none() {
            changed(name, value, NULL)?;
        }
    }
    if changes.is_empty() {
        return Ok(false);
    }
    serde_json::to_writer(out, &changes).map_err(|_| Malformed)?;
    Ok(true)
}

/// Value of the field of this name, which two versions mostly have at the same place.
fn find<'t>(fields: &[Field<'t>], at: usize, name: &str) -> Option<&'t str> {
    let at_place = fields.get(at).filter(|(other, _)| *other == name);
    at_place.or_else(|| fields.iter().find(|(other, _)| *other == name)).map(|(_, value)| *value)
}

fn parsed<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, Malformed> {
    serde_json::from_str(text).map_err(|_| Malformed)
}

/// The fields of a new object without the empty ones, from its JSON text.
pub(super) fn of_new(row: &[u8]) -> Result<Vec<FieldChange>, serde_json::Error> {
    let fields: Map<String, Value> = serde_json::from_slice(row)?;
    let shown = fields.into_iter().filter(|(name, value)| !IMPLIED.contains(&name.as_str()) && !is_empty(value));
    Ok(shown.map(|(path, new)| FieldChange { path, old: Value::Null, new }).collect())
}

/// Whether a new object is not told to have the value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn compare(path: &mut String, before: &Value, after: &Value, out: &mut Vec<FieldChange>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => compare_fields(path, before, after, out),
        (Value::Array(before), Value::Array(after)) => compare_items(path, before, after, out),
        _ if before == after => {}
        _ => out.push(FieldChange { path: path.clone(), old: before.clone(), new: after.clone() }),
    }
}

fn compare_fields(
    path: &mut String,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    out: &mut Vec<FieldChange>,
) {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    for name in after.keys().chain(gone) {
        let (old, new) = (before.get(name).unwrap_or(&Value::Null), after.get(name).unwrap_or(&Value::Null));
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        compare(path, old, new, out);
        path.truncate(length);
    }
}

/// Compares lists position by position. A list that only lost items at its beginning and got items at its end, as a
/// bounded list of events does, is compared as removed and added items.
fn compare_items(path: &mut String, before: &[Value], after: &[Value], out: &mut Vec<FieldChange>) {
    let lost = (0..before.len()).find(|&lost| after.starts_with(&before[lost..]));
    let mut at = |place: usize, old: &Value, new: &Value| {
        let length = path.len();
        path.push_str(&format!("[{place}]"));
        compare(path, old, new, out);
        path.truncate(length);
    };
    match lost {
        Some(lost) => {
            before[..lost].iter().enumerate().for_each(|(place, item)| at(place, item, &Value::Null));
            let kept = before.len() - lost;
            after[kept..].iter().enumerate().for_each(|(place, item)| at(kept + place, &Value::Null, item));
        }
        None => {
            for place in 0..before.len().max(after.len()) {
                at(place, before.get(place).unwrap_or(&Value::Null), after.get(place).unwrap_or(&Value::Null));
            }
        }
    }
}
