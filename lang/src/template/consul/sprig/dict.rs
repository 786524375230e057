//! Maps from texts to anything. Functions that change a map in Go return a changed copy, which the variables with the
//! map get (`Called::Changed`). A map in another template's variables is not reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Called, Plain, arg, is_empty};
use crate::template::{Map, Type, Value, format};

/// Functions that change the map that is their first argument.
pub(super) const CHANGING: &[&str] = &["merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite", "set", "unset"];

pub(super) const PLAIN: &[Plain] = &[
    ("deepCopy", &[Type::Any], None, |args| Ok(copied(&args[0]))),
    ("dict", &[], Some(Type::Any), dict),
    ("dig", &[], Some(Type::Any), dig),
    ("get", &[Type::Map, Type::Text], None, |args| {
        Ok(member(&args[0], arg(args, 1)).unwrap_or_else(|| Value::text("")))
    }),
    ("hasKey", &[Type::Map, Type::Text], None, |args| Ok(Value::Bool(member(&args[0], arg(args, 1)).is_some()))),
    ("keys", &[], Some(Type::Map), |args| Ok(Value::texts(args.iter().flat_map(|map| members(map).into_keys())))),
    ("merge", &[Type::Map], Some(Type::Map), |args| Ok(merged(args, false))),
    ("mergeOverwrite", &[Type::Map], Some(Type::Map), |args| Ok(merged(args, true))),
    ("mustDeepCopy", &[Type::Any], None, |args| Ok(copied(&args[0]))),
    ("mustMerge", &[Type::Map], Some(Type::Map), |args| Ok(merged(args, false))),
    ("mustMergeOverwrite", &[Type::Map], Some(Type::Map), |args| Ok(merged(args, true))),
    ("omit", &[Type::Map], Some(Type::Text), |args| Ok(filtered(args, false))),
    ("pick", &[Type::Map], Some(Type::Text), |args| Ok(filtered(args, true))),
    ("pluck", &[Type::Text], Some(Type::Map), |args| {
        Ok(Value::list(args[1..].iter().filter_map(|map| member(map, arg(args, 0))).collect()))
    }),
    ("set", &[Type::Map, Type::Text, Type::Any], None, |args| {
        let mut items = members(&args[0]);
        items.insert(arg(args, 1).into(), args[2].clone());
        Ok(Value::map(items))
    }),
    ("unset", &[Type::Map, Type::Text], None, |args| {
        let mut items = members(&args[0]);
        items.remove(arg(args, 1));
        Ok(Value::map(items))
    }),
    ("values", &[Type::Map], None, |args| Ok(Value::list(members(&args[0]).into_values().collect()))),
];

type Members = BTreeMap<Arc<str>, Value>;

/// Members of a map; none of another value.
fn members(map: &Value) -> Members {
    match map.plain() {
        Value::Map(map) => map.items.clone(),
        _ => Members::new(),
    }
}

fn member(map: &Value, key: &str) -> Option<Value> {
    match map.plain() {
        Value::Map(map) => map.items.get(key).cloned(),
        _ => None,
    }
}

/// A map from keys and values in turn.
fn dict(args: &[Value]) -> Called {
    let mut items = Members::new();
    for pair in args.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::text(""));
        items.insert(format::plain(&pair[0]).into(), value);
    }
    Ok(Value::map(items))
}

/// A map that is not the given one, so that a change of one is none of the other.
fn copied(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let items = map.items.iter().map(|(key, item)| (Arc::clone(key), copied(item))).collect();
            Value::Map(Arc::new(Map::new(map.of, map.zero.clone(), items)))
        }
        Value::List(list) => {
            Value::List(Arc::new(crate::template::List::new(list.of, list.items.iter().map(copied).collect())))
        }
        other => other.clone(),
    }
}

fn filtered(args: &[Value], keeps: bool) -> Value {
    let names: BTreeSet<&str> = args[1..].iter().filter_map(Value::as_text).collect();
    let mut items = members(&args[0]);
    items.retain(|key, _| names.contains(&**key) == keeps);
    Value::map(items)
}

/// The first map with what it lacks of the others, of which an earlier one comes first. With `overwrites` the last map
/// wins.
fn merged(args: &[Value], overwrites: bool) -> Value {
    let mut items = members(&args[0]);
    for source in &args[1..] {
        merge(&mut items, members(source), overwrites);
    }
    Value::map(items)
}

fn merge(into: &mut Members, from: Members, overwrites: bool) {
    for (key, value) in from {
        match (into.get(&key), &value) {
            (Some(known @ Value::Map(_)), Value::Map(_)) => {
                let mut inner = members(known);
                merge(&mut inner, members(&value), overwrites);
                into.insert(key, Value::map(inner));
            }
            (Some(known), _) if !overwrites && !is_empty(known) => {}
            _ => drop(into.insert(key, value)),
        }
    }
}

/// A value below a chain of keys; the value before the map if a key is missing.
fn dig(args: &[Value]) -> Called {
    let [keys @ .., default, map] = args else { return Err("dig needs at least three arguments".to_owned()) };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".to_owned());
    }
    let other = |value: &Value, wanted: &str| {
        format!("interface conversion: interface {{}} is {}, not {wanted}", super::type_of(value))
    };
    let mut found = map.clone();
    for key in keys {
        let Value::Map(map) = found.plain() else { return Err(other(&found, "map[string]interface {}")) };
        let Some(key) = key.as_text() else { return Err(other(key, "string")) };
        match map.items.get(key) {
            Some(below) => found = below.clone(),
            None => return Ok(default.clone()),
        }
    }
    Ok(found)
}
