//! Values of expressions.

use std::collections::BTreeMap;

pub(crate) use super::number::Number;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    /// Value of an expression with an error. Operations on it report no further errors.
    Unknown,
    Bool(bool),
    Number(Number),
    Text(String),
    Sequence(Sequence, Vec<Value>),
    Mapping(Mapping, BTreeMap<String, Value>),
}

/// Kind of a sequence: the elements of all kinds except tuples have one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    Tuple,
    List,
    Set,
}

/// Kind of a mapping: the values of all kinds except objects have one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    Object,
    Map,
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    pub(crate) fn integer(number: i128) -> Value {
        Value::Number(Number::Integer(number))
    }

    pub(crate) fn tuple(items: Vec<Value>) -> Value {
        Value::Sequence(Sequence::Tuple, items)
    }

    pub(crate) fn list(items: Vec<Value>) -> Value {
        Value::Sequence(Sequence::List, items)
    }

    pub(crate) fn object(members: BTreeMap<String, Value>) -> Value {
        Value::Mapping(Mapping::Object, members)
    }

    /// Whether no part of the value is unknown.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Value::Unknown => false,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => true,
            Value::Sequence(_, items) => items.iter().all(Value::is_known),
            Value::Mapping(_, members) => members.values().all(Value::is_known),
        }
    }

    /// Approximate memory of the value in bytes.
    pub(crate) fn bytes(&self) -> usize {
        const SELF: usize = size_of::<Value>();
        match self {
            Value::Null | Value::Unknown | Value::Bool(_) | Value::Number(_) => SELF,
            Value::Text(text) => SELF + text.len(),
            Value::Sequence(_, items) => SELF + items.iter().map(Value::bytes).sum::<usize>(),
            Value::Mapping(_, members) => {
                SELF + members.iter().map(|(name, value)| name.len() + value.bytes()).sum::<usize>()
            }
        }
    }

    /// The type's name in error texts.
    pub(crate) fn type_name(&self) -> String {
        match self {
            Value::Null | Value::Unknown => "dynamic".to_string(),
            Value::Bool(_) => "bool".to_string(),
            Value::Number(_) => "number".to_string(),
            Value::Text(_) => "string".to_string(),
            Value::Sequence(Sequence::Tuple, _) => "tuple".to_string(),
            Value::Sequence(Sequence::List, items) => format!("list of {}", element_name(items.first())),
            Value::Sequence(Sequence::Set, items) => format!("set of {}", element_name(items.first())),
            Value::Mapping(Mapping::Object, _) => "object".to_string(),
            Value::Mapping(Mapping::Map, members) => format!("map of {}", element_name(members.values().next())),
        }
    }
}

fn element_name(first: Option<&Value>) -> String {
    first.map_or_else(|| "dynamic".to_string(), Value::type_name)
}

/// Converts a JSON document.
pub(crate) fn of_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => Value::Number(Number::parse_literal(&number.to_string())),
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(items) => Value::tuple(items.iter().map(of_json).collect()),
        serde_json::Value::Object(members) => {
            Value::object(members.iter().map(|(name, value)| (name.clone(), of_json(value))).collect())
        }
    }
}
