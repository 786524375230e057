//! Values of `config` blocks: those of tasks, and those of drivers in the agent's configuration. A nested block is an
//! object or a list of objects, depending on the syntax that it was written in; numbers and flags may be texts.

#[cfg(any(feature = "docker", test))]
use std::collections::BTreeMap;

use serde_json::{Map, Value};
use songline_model::Dur;

/// Contents of a block.
pub(crate) type Block = Map<String, Value>;

/// Texts of a list.
pub(crate) fn texts(config: &Block, key: &str) -> Vec<String> {
    let list = config.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().map(written).collect()
}

/// A text; empty when there is none.
pub(crate) fn text(config: &Block, key: &str) -> String {
    config.get(key).map(written).unwrap_or_default()
}

/// A flag, if it is set.
pub(crate) fn flag(config: &Block, key: &str) -> Option<bool> {
    match text(config, key).as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// A whole number; 0 when there is none.
pub(crate) fn number(config: &Block, key: &str) -> i64 {
    match config.get(key) {
        Some(Value::Number(number)) => number.as_i64().or_else(|| number.as_f64().map(|n| n as i64)).unwrap_or(0),
        Some(Value::String(text)) => text.parse().unwrap_or(0),
        Some(_) | None => 0,
    }
}

/// A duration in Go's notation, or a number of nanoseconds; `otherwise` when there is none. The error names the key.
pub(crate) fn span(config: &Block, key: &str, otherwise: Dur) -> Result<Dur, String> {
    match config.get(key) {
        Some(Value::Number(nanos)) => Ok(Dur(nanos.as_i64().unwrap_or(0))),
        _ => match text(config, key).as_str() {
            "" => Ok(otherwise),
            text => songline_lang::duration::parse(text)
                .map(Dur)
                .map_err(|error| format!("{key} {text:?} not a valid duration: {error}")),
        },
    }
}

/// A nested block, the first if there are several.
pub(crate) fn block(config: &Block, key: &str) -> Option<Block> {
    blocks(config, key).into_iter().next()
}

/// Nested blocks of one name.
pub(crate) fn blocks(config: &Block, key: &str) -> Vec<Block> {
    match config.get(key) {
        Some(Value::Object(block)) => vec![block.clone()],
        Some(Value::Array(blocks)) => blocks.iter().filter_map(|block| block.as_object().cloned()).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => Vec::new(),
    }
}

/// Texts by name: a map, or the attributes of blocks.
#[cfg(any(feature = "docker", test))]
pub(crate) fn map(config: &Block, key: &str) -> BTreeMap<String, String> {
    blocks(config, key).iter().flatten().map(|(name, value)| (name.clone(), written(value))).collect()
}

/// The value as a text.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn map_is_written_as_an_object_or_as_blocks() {
        let written = json!({"a": {"x": "1"}, "b": [{"x": "1"}, {"y": 2, "z": true}], "c": "odd"});
        let config = written.as_object().expect("an object");
        let maps = ["a", "b", "c", "d"].map(|key| map(config, key));
        assert_eq!(format!("{maps:?}"), r#"[{"x": "1"}, {"x": "1", "y": "2", "z": "true"}, {}, {}]"#);
    }
}
