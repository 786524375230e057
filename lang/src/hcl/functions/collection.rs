//! Functions on lists and maps.

use std::collections::BTreeMap;

use super::{Called, Failure, Function, Takes, fail, number_of, plain, text_of, variadic, whole_of};
use crate::hcl::convert::{Type, convert, type_of, unified};
use crate::hcl::value::{Mapping, Number, Sequence, Value};

const NOT_A_COLLECTION: &str = "collection must be a list, a map or a tuple";

/// Largest number of elements of a range.
const RANGE_MAX: usize = 1024;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("chunklist", &[("list", Takes::List), ("size", Takes::Number)], chunk),
    variadic("coalesce", &[], ("vals", Takes::Nullable), coalesce),
    variadic("coalescelist", &[], ("vals", Takes::Nullable), coalesce_lists),
    plain("compact", &[("list", Takes::Texts)], |given| {
        Ok(Value::list(
            items(given, 0)
                .iter()
                .filter(|item| !matches!(item, Value::Null) && **item != Value::text(""))
                .cloned()
                .collect(),
        ))
    }),
    variadic("concat", &[], ("seqs", Takes::Any), concat),
    plain("contains", &[("list", Takes::Any), ("value", Takes::Any)], |given| match given {
        [Value::Sequence(_, items), value, ..] => Ok(Value::Bool(items.contains(value))),
        _ => fail("argument must be list, tuple, or set"),
    }),
    plain("distinct", &[("list", Takes::List)], |given| {
        let mut kept: Vec<Value> = Vec::new();
        for item in items(given, 0) {
            if !kept.contains(item) {
                kept.push(item.clone());
            }
        }
        Ok(Value::list(kept))
    }),
    plain("element", &[("list", Takes::Any), ("index", Takes::Number)], element),
    plain("flatten", &[("list", Takes::Any)], |given| {
        let Some(Value::Sequence(_, items)) = given.first() else {
            return fail("can only flatten lists, sets and tuples");
        };
        let mut flat = Vec::new();
        flatten(items, &mut flat);
        Ok(Value::tuple(flat))
    }),
    plain("index", &[("collection", Takes::Any), ("key", Takes::Any)], index),
    plain("keys", &[("inputMap", Takes::Any)], |given| match given.first() {
        Some(Value::Mapping(_, members)) => Ok(Value::list(members.keys().map(Value::text).collect())),
        _ => Err(Failure::Argument(0, "must have map or object type".to_string())),
    }),
    plain("length", &[("collection", Takes::Any)], |given| match given.first() {
        Some(Value::Sequence(_, items)) => Ok(Value::Number(Number::from(items.len()))),
        Some(Value::Mapping(Mapping::Map, members)) => Ok(Value::Number(Number::from(members.len()))),
        _ => fail(NOT_A_COLLECTION),
    }),
    plain("lookup", &[("inputMap", Takes::Any), ("key", Takes::Text), ("default", Takes::Any)], lookup),
    variadic("merge", &[], ("maps", Takes::Nullable), merge),
    variadic("range", &[], ("params", Takes::Number), range),
    plain("slice", &[("list", Takes::Any), ("start_index", Takes::Number), ("end_index", Takes::Number)], slice),
    plain("sort", &[("list", Takes::Texts)], |given| {
        let items = items(given, 0);
        if let Some(at) = items.iter().position(|item| *item == Value::Null) {
            return fail(format!("given list element {at} is null; a null string cannot be sorted"));
        }
        let mut texts: Vec<String> = items.iter().map(text).collect();
        texts.sort_unstable();
        Ok(Value::list(texts.into_iter().map(Value::Text).collect()))
    }),
    plain("values", &[("mapping", Takes::Any)], |given| match given.first() {
        Some(Value::Mapping(_, members)) => Ok(Value::tuple(members.values().cloned().collect())),
        _ => fail("values() requires a map as the first argument"),
    }),
    plain("zipmap", &[("keys", Takes::Texts), ("values", Takes::Any)], zipmap),
];

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}

/// The elements of a list argument.
fn items(given: &[Value], at: usize) -> &[Value] {
    match given.get(at) {
        Some(Value::Sequence(_, items)) => items,
        _ => &[],
    }
}

fn chunk(given: &[Value]) -> Called {
    let list = items(given, 0);
    if list.is_empty() {
        return Ok(Value::list(Vec::new()));
    }
    match usize::try_from(whole_of(given, 1).or_else(|reason| fail(format!("invalid index: {reason}")))?) {
        Err(_) => fail("the size argument must be positive"),
        Ok(0) => Ok(Value::list(vec![Value::list(list.to_vec())])),
        Ok(size) => Ok(Value::list(list.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect())),
    }
}

/// The first argument that is not null. An empty text counts as a value.
fn coalesce(given: &[Value]) -> Called {
    match unified(given.to_vec()) {
        Ok(alike) if !alike.is_empty() => {
            alike.into_iter().find(|value| *value != Value::Null).map_or_else(|| fail("no non-null arguments"), Ok)
        }
        _ => fail("all arguments must have the same type"),
    }
}

fn coalesce_lists(given: &[Value]) -> Called {
    if given.is_empty() {
        return fail("at least one argument is required");
    }
    if given.iter().any(|list| !matches!(list, Value::Sequence(Sequence::List | Sequence::Tuple, _))) {
        return fail("coalescelist arguments must be lists or tuples");
    }
    let first = given.iter().find(|list| matches!(list, Value::Sequence(_, items) if !items.is_empty()));
    first.cloned().map_or_else(|| fail("no non-null arguments"), Ok)
}

fn concat(given: &[Value]) -> Called {
    if given.is_empty() {
        return fail("at least one argument is required");
    }
    let mut all = Vec::new();
    for (at, list) in given.iter().enumerate() {
        match list {
            Value::Sequence(Sequence::List | Sequence::Tuple, items) => all.extend_from_slice(items),
            other => {
                let reason = format!("all arguments must be lists or tuples; got {}", friendly(other));
                return Err(Failure::Argument(at, reason));
            }
        }
    }
    Ok(Value::tuple(all))
}

/// The type of a value with its element type, for error texts.
fn friendly(value: &Value) -> String {
    type_of(value).name()
}

fn element(given: &[Value]) -> Called {
    if number_of(given, 1).compare(Number::Integer(0)).is_lt() {
        return fail("cannot use element function with a negative index");
    }
    let list = match given.first() {
        Some(Value::Sequence(Sequence::List | Sequence::Tuple, items)) => items,
        other => return fail(format!("cannot read elements from {}", friendly(other.unwrap_or(&Value::Null)))),
    };
    let at = whole_of(given, 1).or_else(|reason| fail(format!("invalid index: {reason}")))?;
    match usize::try_from(at) {
        Ok(at) if !list.is_empty() => Ok(list[at % list.len()].clone()),
        _ => fail("cannot use element function with an empty list"),
    }
}

fn flatten(items: &[Value], flat: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::Sequence(_, inner) => flatten(inner, flat),
            other => flat.push(other.clone()),
        }
    }
}

fn index(given: &[Value]) -> Called {
    let found = match (given.first(), given.get(1)) {
        (Some(Value::Sequence(kind @ (Sequence::Tuple | Sequence::List), items)), key) => {
            let is_tuple = *kind == Sequence::Tuple;
            if !matches!(key, Some(Value::Number(_))) {
                return fail(format!("key for {} must be number", if is_tuple { "tuple" } else { "list" }));
            }
            let found = match whole_of(given, 1) {
                Err(reason) if is_tuple => return fail(format!("invalid key for tuple: {reason}")),
                at => at.ok().and_then(|at| usize::try_from(at).ok()).and_then(|at| items.get(at)),
            };
            if found.is_none() && is_tuple {
                return fail(format!("key must be between 0 and {} inclusive", items.len()));
            }
            found
        }
        (Some(Value::Mapping(Mapping::Map, members)), Some(Value::Text(name))) => members.get(name),
        (Some(Value::Mapping(Mapping::Map, _)), _) => return fail("key for map must be string"),
        _ => return fail(NOT_A_COLLECTION),
    };
    found.cloned().map_or_else(|| fail("invalid index"), Ok)
}

fn lookup(given: &[Value]) -> Called {
    let default = given.get(2).cloned().unwrap_or(Value::Null);
    match given.first() {
        Some(Value::Mapping(Mapping::Object, members)) => {
            Ok(members.get(text_of(given, 1)).cloned().unwrap_or(default))
        }
        Some(Value::Mapping(Mapping::Map, members)) => {
            // All elements of a map have one type, so the default is converted to it.
            let of = members.values().next().map_or(Type::Any, type_of);
            let Ok(default) = convert(&default, &of) else {
                return Err(Failure::Argument(
                    2,
                    "the default value must have the same type as the map elements".to_string(),
                ));
            };
            Ok(members.get(text_of(given, 1)).cloned().unwrap_or(default))
        }
        _ => Err(Failure::Argument(0, "lookup() requires a map as the first argument".to_string())),
    }
}

fn merge(given: &[Value]) -> Called {
    let mut merged = BTreeMap::new();
    for map in given {
        match map {
            Value::Null => {}
            Value::Mapping(_, members) => merged.extend(members.clone()),
            other => return fail(format!("arguments must be maps or objects, got {:?}", friendly(other))),
        }
    }
    if !given.is_empty() && given.iter().all(|map| *map == Value::Null) {
        return Ok(Value::Null);
    }
    Ok(Value::object(merged))
}

fn range(given: &[Value]) -> Called {
    let zero = Number::Integer(0);
    let (start, end, step) = match given.len() {
        1 => {
            let end = number_of(given, 0);
            let step = if end.compare(zero).is_lt() { -1 } else { 1 };
            (zero, end, Number::Integer(step))
        }
        2 => {
            let (start, end) = (number_of(given, 0), number_of(given, 1));
            let step = if end.compare(start).is_lt() { -1 } else { 1 };
            (start, end, Number::Integer(step))
        }
        3 => (number_of(given, 0), number_of(given, 1), number_of(given, 2)),
        _ => return fail("must have one, two, or three arguments"),
    };
    // A step of zero is caught by the limit on the number of elements.
    let up = !step.compare(zero).is_lt();
    if up && start.compare(end).is_gt() {
        return Err(Failure::Argument(1, "end must be greater than start when step is positive".to_string()));
    }
    if !up && start.compare(end).is_lt() {
        return Err(Failure::Argument(1, "end must be less than start when step is negative".to_string()));
    }
    let mut numbers = Vec::new();
    let mut at = start;
    while if up { at.compare(end).is_lt() } else { at.compare(end).is_gt() } {
        if numbers.len() >= RANGE_MAX {
            return fail(format!(
                "more than {RANGE_MAX} values were generated; either decrease the difference between start and end or use a smaller step"
            ));
        }
        numbers.push(Value::Number(at));
        at = at.add(step);
    }
    Ok(Value::list(numbers))
}

fn slice(given: &[Value]) -> Called {
    let Some(Value::Sequence(kind @ (Sequence::List | Sequence::Tuple), list)) = given.first() else {
        return Err(Failure::Argument(0, "must be a list or tuple value".to_string()));
    };
    let index = |at: usize, name: &str| -> Result<usize, Failure> {
        let given =
            whole_of(given, at).map_err(|reason| Failure::Argument(at, format!("invalid {name} index: {reason}")))?;
        match usize::try_from(given) {
            Ok(index) if index > list.len() => {
                Err(Failure::Argument(at, format!("{name} index must not be greater than the length of the list")))
            }
            Ok(index) => Ok(index),
            Err(_) => Err(Failure::Argument(at, format!("{name} index must not be less than zero"))),
        }
    };
    let (start, end) = (index(1, "start")?, index(2, "end")?);
    if start > end {
        return Err(Failure::Argument(1, "start index must not be greater than end index".to_string()));
    }
    Ok(Value::Sequence(*kind, list[start..end].to_vec()))
}

fn zipmap(given: &[Value]) -> Called {
    let (keys, values) = match (given.first(), given.get(1)) {
        (Some(Value::Sequence(_, keys)), Some(Value::Sequence(Sequence::List | Sequence::Tuple, values))) => {
            (keys, values)
        }
        _ => return fail("values argument must be a list or tuple value"),
    };
    if keys.len() != values.len() {
        return fail(format!("number of keys ({}) does not match number of values ({})", keys.len(), values.len()));
    }
    if let Some(at) = keys.iter().position(|key| *key == Value::Null) {
        return fail(format!("keys list has null value at index {at}"));
    }
    Ok(Value::object(keys.iter().map(text).zip(values.iter().cloned()).collect()))
}
