//! Differences between two versions of an object, field by field.

use serde::Serialize;
use serde_json::{Map, Value};

/// Fields that every change sets. Answers show the index of the change anyway.
const IMPLIED: [&str; 1] = ["ModifyIndex"];

/// One field of an object, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FieldChange {
    /// Path of the field: names and `[positions]`, such as `TaskGroups[0].Count`.
    pub path: String,
    /// Value before; null when the field was absent.
    pub old: Value,
    /// Value after; null when the field is absent.
    pub new: Value,
}

/// The fields that differ between two versions of an object.
pub(super) fn between(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    compare(&mut String::new(), before, after, &mut changes);
    changes.retain(|change| !IMPLIED.contains(&change.path.as_str()));
    changes
}

/// The fields of a new object without the empty ones.
pub(super) fn of_new(row: &Value) -> Vec<FieldChange> {
    let fields = row.as_object().into_iter().flatten();
    let shown = fields.filter(|(name, value)| !IMPLIED.contains(&name.as_str()) && !is_empty(value));
    shown.map(|(path, new)| FieldChange { path: path.clone(), old: Value::Null, new: new.clone() }).collect()
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
