//! Metrics of an allocation in the form of the recordings.

use serde_json::{Map, Value, json};

use crate::labels::Labels;

const NUMBERS: [&str; 5] = ["NodesEvaluated", "NodesFiltered", "NodesInPool", "NodesExhausted", "CoalescedFailures"];
const MAPS: [&str; 5] =
    ["NodesAvailable", "ClassFiltered", "ConstraintFiltered", "ClassExhausted", "DimensionExhausted"];

/// Metrics without empty maps, and with scores by node.
pub fn metrics(row: &Value, labels: &Labels) -> Value {
    let mut told = Map::new();
    for key in NUMBERS {
        told.insert(key.into(), row[key].clone());
    }
    for key in MAPS {
        if !is_empty(&row[key]) {
            told.insert(key.into(), row[key].clone());
        }
    }
    if !is_empty(&row["ResourcesExhausted"]) {
        told.insert("ResourcesExhausted".into(), without_empty(&row["ResourcesExhausted"]));
    }
    let scored = row["ScoreMetaData"].as_array().into_iter().flatten().map(|scores| {
        let node = labels.text(scores["NodeID"].as_str().unwrap_or_default());
        (node, json!({ "NormScore": scores["NormScore"], "Scores": scores["Scores"] }))
    });
    let scored: Map<String, Value> = scored.collect();
    if !scored.is_empty() {
        told.insert("Scored".into(), Value::Object(scored));
    }
    Value::Object(told)
}

/// Metrics by group.
pub fn by_group(rows: &Value, labels: &Labels) -> Map<String, Value> {
    rows.as_object().into_iter().flatten().map(|(group, row)| (group.clone(), metrics(row, labels))).collect()
}

/// Whether a value is nothing: null, false, zero, or an empty text, list or object.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// An object without its empty values, at any depth.
pub fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !is_empty(value));
            Value::Object(kept.map(|(key, value)| (key.clone(), without_empty(value))).collect())
        }
        other => other.clone(),
    }
}
