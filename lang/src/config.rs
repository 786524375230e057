//! Configuration documents of any shape, HCL 1 or JSON, converted to JSON. The caller checks the keys.
//!
//! A block becomes an element of a list, `server { a = 1 }` = `{"server": [{"a": 1}]}`; its labels nest, `plugin "x"
//! {}` = `{"plugin": [{"x": [{}]}]}`; blocks of one name are appended to the list. A value written with `=` stays as
//! it is; of several the last one wins, except that objects are appended too.

mod settings;
#[cfg(test)]
mod tests;

use serde_json::{Map, Number, Value, json};

pub use settings::{Setting, settings};

use crate::go_json;
use crate::hcl1::{self, Item, Node, NodeKind};

/// A document was refused; HCL errors name line and column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not HCL.
    #[error("{0}")]
    Hcl(String),
    /// The text is not JSON.
    #[error(transparent)]
    Json(#[from] go_json::Error),
}

/// Parses a document. A text that begins with a brace is JSON.
pub fn parse(text: &str) -> Result<Value, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        return json_of(text);
    }
    let items = hcl1::parse(text).map_err(|error| Error::Hcl(error.to_string()))?;
    object(&items).map(Value::Object)
}

fn json_of(text: &str) -> Result<Value, Error> {
    Ok(go_json::value_from_slice(text.as_bytes())?)
}

fn object(items: &[Item]) -> Result<Map<String, Value>, Error> {
    let mut members = Map::new();
    for item in items {
        let [key, labels @ ..] = item.keys.as_slice() else { continue };
        let mut value = value(&item.value)?;
        if item.assigned {
            match members.get_mut(key) {
                Some(Value::Array(blocks)) if value.is_object() && blocks.iter().all(Value::is_object) => {
                    blocks.push(value)
                }
                Some(earlier @ Value::Object(_)) if value.is_object() => *earlier = json!([earlier.take(), value]),
                _ => {
                    members.insert(key.clone(), value);
                }
            }
            continue;
        }
        for label in labels.iter().rev() {
            value = json!({ label.as_str(): [value] });
        }
        match members.get_mut(key) {
            Some(Value::Array(blocks)) => blocks.push(value),
            Some(earlier @ Value::Object(_)) => *earlier = json!([earlier.take(), value]),
            _ => {
                members.insert(key.clone(), json!([value]));
            }
        }
    }
    Ok(members)
}

fn value(node: &Node) -> Result<Value, Error> {
    let wrong = |message: String| Error::Hcl(format!("At {}:{}: {message}", node.place.line, node.place.column));
    match &node.kind {
        NodeKind::Bool(truth) => Ok(json!(truth)),
        NodeKind::Text(text) => Ok(json!(text)),
        NodeKind::Integer(digits) => {
            let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
                Some(hex) => i64::from_str_radix(hex, 16),
                None => digits.parse(),
            };
            parsed.map(|number| json!(number)).map_err(|_| wrong(format!("{digits} is out of range")))
        }
        NodeKind::Float(digits) => {
            let float = digits.parse::<f64>().ok().and_then(Number::from_f64);
            float.map(Value::Number).ok_or_else(|| wrong(format!("{digits} is out of range")))
        }
        NodeKind::List(nodes) => nodes.iter().map(value).collect::<Result<_, _>>().map(Value::Array),
        NodeKind::Object(items) => object(items).map(Value::Object),
    }
}
