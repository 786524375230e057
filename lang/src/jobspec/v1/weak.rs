//! Weak conversions between types, such as from text to number or boolean.

use serde_json::{Value as Json, json};

use crate::duration;
use crate::hcl1::{Item, Node, NodeKind};
use crate::jobspec::Object;
use crate::jobspec::schema::Kind;

/// Converts a value; the error names the attribute.
pub(super) fn convert(node: &Node, kind: Kind, name: &str) -> Result<Json, String> {
    match kind {
        Kind::Text => text(node, name).map(Json::String),
        Kind::Integer | Kind::Small | Kind::Unsigned | Kind::Byte => integer(node, kind, name),
        Kind::Bool => boolean(node, name),
        Kind::Duration => match &node.kind {
            NodeKind::Text(text) => duration::parse(text)
                .map(|nanos| json!(nanos))
                .map_err(|error| format!("error decoding '{name}': {error}")),
            _ => integer(node, Kind::Integer, name),
        },
        Kind::Texts => {
            let items = match &node.kind {
                NodeKind::List(items) => items.as_slice(),
                _ => std::slice::from_ref(node),
            };
            items.iter().map(|item| text(item, name).map(Json::String)).collect::<Result<_, _>>().map(Json::Array)
        }
        Kind::TextMap => Err(unconvertible(node, name, "map[string]string")),
    }
}

fn text(node: &Node, name: &str) -> Result<String, String> {
    match &node.kind {
        NodeKind::Text(text) => Ok(text.clone()),
        NodeKind::Integer(digits) => Ok(digits.clone()),
        NodeKind::Float(_) => Ok(float(node).to_string()),
        NodeKind::Bool(truth) => Ok(u8::from(*truth).to_string()),
        NodeKind::List(_) | NodeKind::Object(_) => Err(unconvertible(node, name, "string")),
    }
}

fn integer(node: &Node, kind: Kind, name: &str) -> Result<Json, String> {
    match &node.kind {
        NodeKind::Integer(digits) => parse_integer(digits, name).map(|number| narrowed(number, kind)),
        NodeKind::Text(text) if text.is_empty() => Ok(json!(0)),
        NodeKind::Text(text) => {
            let number = parse_integer(text, name)?;
            let narrowed = narrowed(number, kind);
            if narrowed == json!(number) { Ok(narrowed) } else { Err(unparsable(text, name, OUT_OF_RANGE)) }
        }
        NodeKind::Float(_) => Ok(narrowed(float(node) as i64, kind)),
        NodeKind::Bool(truth) => Ok(json!(i64::from(*truth))),
        NodeKind::List(_) | NodeKind::Object(_) => Err(unconvertible(node, name, "int")),
    }
}

/// A number in a type of fewer values. The reference assigns numbers without a check: the upper bits are lost.
fn narrowed(number: i64, kind: Kind) -> Json {
    match kind {
        Kind::Small => json!(number as i8),
        Kind::Byte => json!(number as u8),
        Kind::Unsigned => json!(number as u64),
        Kind::Text | Kind::Integer | Kind::Bool | Kind::Texts | Kind::TextMap | Kind::Duration => json!(number),
    }
}

const OUT_OF_RANGE: &str = "value out of range";

fn unparsable(digits: &str, name: &str, reason: &str) -> String {
    format!("cannot parse '{name}' as int: strconv.ParseInt: parsing {digits:?}: {reason}")
}

fn parse_integer(digits: &str, name: &str) -> Result<i64, String> {
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse::<i64>(),
    };
    parsed.map_err(|error| {
        let reason = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => OUT_OF_RANGE,
            _ => "invalid syntax",
        };
        unparsable(digits, name, reason)
    })
}

fn boolean(node: &Node, name: &str) -> Result<Json, String> {
    match &node.kind {
        NodeKind::Bool(truth) => Ok(json!(truth)),
        NodeKind::Integer(digits) => Ok(json!(digits != "0")),
        NodeKind::Float(_) => Ok(json!(float(node) != 0.0)),
        NodeKind::Text(text) if text.is_empty() => Ok(json!(false)),
        NodeKind::Text(text) => match parse_bool(text) {
            Some(truth) => Ok(json!(truth)),
            None => Err(format!("cannot parse '{name}' as bool: {}", no_bool(text))),
        },
        NodeKind::List(_) | NodeKind::Object(_) => Err(unconvertible(node, name, "bool")),
    }
}

/// The boolean that a text spells.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The error of a text that spells no boolean.
pub(super) fn no_bool(text: &str) -> String {
    format!("strconv.ParseBool: parsing {text:?}: invalid syntax")
}

fn float(node: &Node) -> f64 {
    match &node.kind {
        NodeKind::Float(digits) => digits.parse().unwrap_or(0.0),
        _ => 0.0,
    }
}

fn unconvertible(node: &Node, name: &str, wanted: &str) -> String {
    format!("'{name}' expected type '{wanted}', got unconvertible type '{}', value: '{}'", go_kind(node), shown(node))
}

/// The type that the value was parsed as, as Go names it.
pub(super) fn go_kind(node: &Node) -> &'static str {
    match &node.kind {
        NodeKind::Bool(_) => "bool",
        NodeKind::Integer(_) => "int",
        NodeKind::Float(_) => "float64",
        NodeKind::Text(_) => "string",
        NodeKind::List(_) => "[]interface {}",
        NodeKind::Object(_) => "[]map[string]interface {}",
    }
}

fn shown(node: &Node) -> String {
    match &node.kind {
        NodeKind::Bool(truth) => truth.to_string(),
        NodeKind::Integer(digits) | NodeKind::Float(digits) => digits.clone(),
        NodeKind::Text(text) => text.clone(),
        NodeKind::List(nodes) => {
            let parts: Vec<String> = nodes.iter().map(shown).collect();
            format!("[{}]", parts.join(" "))
        }
        NodeKind::Object(items) => {
            let parts: Vec<String> =
                items.iter().map(|item| format!("{}:{}", item.keys.join(" "), shown(&item.value))).collect();
            format!("[map[{}]]", parts.join(" "))
        }
    }
}

// ---- free-form bodies

/// The JSON of a free-form body: blocks and objects become lists of objects, labels nest.
pub(super) fn free(items: &[Item]) -> Object {
    let mut object = Object::new();
    for item in items {
        let [key, labels @ ..] = item.keys.as_slice() else { continue };
        let mut value = value(&item.value);
        if !matches!(item.value.kind, NodeKind::Object(_)) {
            object.insert(key.clone(), value);
            continue;
        }
        for label in labels.iter().rev() {
            value = json!({ label.as_str(): [value] });
        }
        match object.get_mut(key) {
            Some(Json::Array(blocks)) => blocks.push(value),
            _ => {
                object.insert(key.clone(), json!([value]));
            }
        }
    }
    object
}

fn value(node: &Node) -> Json {
    match &node.kind {
        NodeKind::Bool(truth) => json!(truth),
        NodeKind::Text(text) => json!(text),
        NodeKind::Integer(digits) => parse_integer(digits, "").map_or(Json::Null, |number| json!(number)),
        NodeKind::Float(_) => json!(float(node)),
        NodeKind::List(nodes) => Json::Array(nodes.iter().map(value).collect()),
        NodeKind::Object(items) => Json::Object(free(items)),
    }
}
