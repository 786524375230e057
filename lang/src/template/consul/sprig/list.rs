//! Lists and maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arg;
use crate::template::builtin::equal;
use crate::template::{Value, format};

/// Largest count of `until`.
const COUNT_MAX: i64 = 1_000_000;

/// Elements of a list; none of another value.
pub(super) fn items(value: &Value) -> Vec<Value> {
    value.items().map(|list| list.items.clone()).unwrap_or_default()
}

/// A list with another element at its end, or at its start.
pub(super) fn with(list: &Value, element: &Value, at_start: bool) -> Value {
    let mut items = items(list);
    items.insert(if at_start { 0 } else { items.len() }, element.clone());
    Value::list(items)
}

pub(super) fn has(list: &Value, element: &Value) -> bool {
    items(list).iter().any(|item| equal(item, element).unwrap_or(false))
}

pub(super) fn unique(list: &Value) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    for item in items(list) {
        if !kept.iter().any(|known| equal(known, &item).unwrap_or(false)) {
            kept.push(item);
        }
    }
    Value::list(kept)
}

pub(super) fn without(args: &[Value]) -> Value {
    let Some((list, left_out)) = args.split_first() else { return Value::list(Vec::new()) };
    let is_out = |item: &Value| left_out.iter().any(|other| equal(item, other).unwrap_or(false));
    Value::list(items(list).into_iter().filter(|item| !is_out(item)).collect())
}

/// Whole numbers from one to before another.
pub(super) fn until(from: i64, to: i64, step: i64) -> Result<Value, String> {
    let step = if step == 0 { return Ok(Value::list(Vec::new())) } else { step };
    let count = (i128::from(to) - i128::from(from)) / i128::from(step);
    if count > i128::from(COUNT_MAX) {
        return Err(format!("more than {COUNT_MAX} numbers"));
    }
    let mut numbers = Vec::new();
    let mut number = from;
    while (step > 0 && number < to) || (step < 0 && number > to) {
        numbers.push(Value::Int(number));
        number = number.saturating_add(step);
    }
    Ok(Value::list(numbers))
}

/// Parts of a text as `_0`, `_1` and so on.
pub(super) fn split(args: &[Value]) -> Result<Value, String> {
    let parts = arg(args, 1).split(arg(args, 0)).enumerate();
    Ok(Value::map(parts.map(|(at, part)| (format!("_{at}").into(), Value::text(part))).collect()))
}

/// A map from keys and values in turn.
pub(super) fn dict(args: &[Value]) -> Result<Value, String> {
    let mut members = BTreeMap::new();
    for pair in args.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::text(""));
        members.insert(Arc::from(format::plain(&pair[0])), value);
    }
    Ok(Value::map(members))
}

pub(super) fn member(map: &Value, key: &str) -> Option<Value> {
    match map.plain() {
        Value::Map(map) => map.items.get(key).cloned(),
        _ => None,
    }
}

pub(super) fn keys(map: &Value) -> Vec<String> {
    match map.plain() {
        Value::Map(map) => map.items.keys().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn values(map: &Value) -> Vec<Value> {
    match map.plain() {
        Value::Map(map) => map.items.values().cloned().collect(),
        _ => Vec::new(),
    }
}
