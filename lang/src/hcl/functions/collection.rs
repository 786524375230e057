//! Functions on lists and maps.

use std::collections::BTreeMap;

use super::{Called, Failure, Function, Parameter, Takes, fail, integer_of, number_of, plain, text_of, variadic};
use crate::hcl::convert::{Type, convert, unified};
use crate::hcl::value::{Mapping, Number, Sequence, Value};

const LIST: &[Parameter] = &[("list", Takes::Any)];
const MAP: &[Parameter] = &[("inputMap", Takes::Any)];

/// How many numbers a range may have.
const RANGE_MAX: usize = 1024;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("chunklist", &[("list", Takes::Any), ("size", Takes::Number)], chunk),
    variadic("coalesce", &[], ("vals", Takes::Nullable), coalesce),
    variadic("coalescelist", &[], ("vals", Takes::Nullable), |given| {
        match given.iter().find(|list| matches!(list, Value::Sequence(_, items) if !items.is_empty())) {
            Some(list) => Ok(list.clone()),
            None => fail("no non-null arguments"),
        }
    }),
    plain("compact", &[("list", Takes::Texts)], |given| {
        Ok(Value::list(items(given, 0)?.iter().filter(|item| !matches!(item, Value::Null) && **item != Value::text("")).cloned().collect()))
    }),
    variadic("concat", &[], ("seqs", Takes::Any), concat),
    plain("contains", &[("list", Takes::Any), ("value", Takes::Any)], |given| {
        Ok(Value::Bool(given.get(1).is_some_and(|value| items(given, 0).is_ok_and(|items| items.contains(value)))))
    }),
    plain("distinct", LIST, |given| {
        let mut kept: Vec<Value> = Vec::new();
        for item in items(given, 0)? {
            if !kept.contains(item) {
                kept.push(item.clone());
            }
        }
        Ok(Value::list(kept))
    }),
    plain("element", &[("list", Takes::Any), ("index", Takes::Number)], element),
    plain("flatten", LIST, |given| {
        let mut flat = Vec::new();
        flatten(items(given, 0)?, &mut flat);
        Ok(Value::tuple(flat))
    }),
    plain("index", &[("collection", Takes::Any), ("key", Takes::Any)], index),
    plain("keys", MAP, |given| Ok(Value::list(members(given, 0)?.keys().map(Value::text).collect()))),
    plain("length", &[("collection", Takes::Any)], length),
    variadic("lookup", &[("inputMap", Takes::Any), ("key", Takes::Text)], ("default", Takes::Any), lookup),
    variadic("merge", &[], ("maps", Takes::Nullable), merge),
    variadic("range", &[], ("params", Takes::Number), range),
    plain("slice", &[("list", Takes::Any), ("start_index", Takes::Number), ("end_index", Takes::Number)], slice),
    plain("sort", &[("list", Takes::Texts)], |given| {
        let mut texts: Vec<String> = items(given, 0)?.iter().map(text).collect();
        texts.sort_unstable();
        Ok(Value::list(texts.into_iter().map(Value::Text).collect()))
    }),
    plain("values", &[("mapping", Takes::Any)], |given| Ok(Value::tuple(members(given, 0)?.values().cloned().collect()))),
    plain("zipmap", &[("keys", Takes::Texts), ("values", Takes::Any)], zipmap),
];

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn items(given: &[Value], at: usize) -> Result<&[Value], Failure> {
    match given.get(at) {
        Some(Value::Sequence(_, items)) => Ok(items),
        _ => Err(Failure::Argument(at, "must be a list, a set or a tuple".to_string())),
    }
}

fn members(given: &[Value], at: usize) -> Result<&BTreeMap<String, Value>, Failure> {
    match given.get(at) {
        Some(Value::Mapping(_, members)) => Ok(members),
        _ => Err(Failure::Argument(at, "must be a map or an object".to_string())),
    }
}

fn chunk(given: &[Value]) -> Called {
    let list = items(given, 0)?;
    match usize::try_from(integer_of(given, 1)?) {
        Err(_) => Err(Failure::Argument(1, "the size argument must be positive".to_string())),
        Ok(0) => Ok(Value::list(vec![Value::list(list.to_vec())])),
        Ok(size) => Ok(Value::list(list.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect())),
    }
}

fn coalesce(given: &[Value]) -> Called {
    let Ok(alike) = unified(given.to_vec()) else { return fail("all arguments must have the same type") };
    let found = alike.into_iter().find(|value| *value != Value::Null && *value != Value::text(""));
    found.map_or_else(|| fail("no non-null, non-empty-string arguments"), Ok)
}

fn concat(given: &[Value]) -> Called {
    if given.is_empty() {
        return fail("at least one argument is required");
    }
    let mut all = Vec::new();
    for at in 0..given.len() {
        all.extend_from_slice(items(given, at)?);
    }
    Ok(Value::tuple(all))
}

fn element(given: &[Value]) -> Called {
    let list = items(given, 0)?;
    let at = integer_of(given, 1)?;
    if list.is_empty() {
        return fail("cannot use element function with an empty list");
    }
    match usize::try_from(at) {
        Ok(at) => Ok(list[at % list.len()].clone()),
        Err(_) => fail("cannot use element function with a negative index"),
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
    let key = given.get(1).cloned().unwrap_or(Value::Null);
    match given.first() {
        Some(Value::Sequence(_, items)) => {
            let at = match convert(&key, &Type::Number) {
                Ok(Value::Number(number)) => number.as_integer().and_then(|at| usize::try_from(at).ok()),
                _ => return Err(Failure::Argument(1, "key for list must be number".to_string())),
            };
            at.and_then(|at| items.get(at)).cloned().map_or_else(|| fail("invalid index"), Ok)
        }
        Some(Value::Mapping(Mapping::Map, members)) => match key {
            Value::Text(name) => members.get(&name).cloned().map_or_else(|| fail("invalid index"), Ok),
            _ => Err(Failure::Argument(1, "key for map must be string".to_string())),
        },
        _ => Err(Failure::Argument(0, "index function requires a list or a map".to_string())),
    }
}

fn length(given: &[Value]) -> Called {
    match given.first() {
        Some(Value::Sequence(_, items)) => Ok(Value::Number(Number::from(items.len()))),
        Some(Value::Mapping(Mapping::Map, members)) => Ok(Value::Number(Number::from(members.len()))),
        _ => Err(Failure::Argument(0, "collection must be a list, a map or a tuple".to_string())),
    }
}

fn lookup(given: &[Value]) -> Called {
    let key = text_of(given, 1);
    match (members(given, 0)?.get(key), given.get(2)) {
        (Some(found), _) => Ok(found.clone()),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => fail(format!("lookup failed to find key {key:?}")),
    }
}

fn merge(given: &[Value]) -> Called {
    let mut merged = BTreeMap::new();
    for (at, map) in given.iter().enumerate() {
        match map {
            Value::Null => {}
            Value::Mapping(_, members) => merged.extend(members.clone()),
            other => {
                return Err(Failure::Argument(at, format!("arguments must be maps or objects, got {:?}", other.type_name())));
            }
        }
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
    if step.compare(zero).is_eq() {
        return Err(Failure::Argument(2, "step must not be zero".to_string()));
    }
    let up = step.compare(zero).is_gt();
    if up && start.compare(end).is_gt() {
        return Err(Failure::Argument(2, "end must be greater than start when step is positive".to_string()));
    }
    if !up && start.compare(end).is_lt() {
        return Err(Failure::Argument(2, "end must be less than start when step is negative".to_string()));
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
    let kind = match given.first() {
        Some(Value::Sequence(Sequence::Tuple, _)) => Sequence::Tuple,
        _ => Sequence::List,
    };
    let list = items(given, 0)?;
    let within = |at: usize, least: usize| -> Result<usize, Failure> {
        let given = integer_of(given, at)?;
        let (low, high) = (if at == 1 { "start" } else { "end" }, list.len());
        match usize::try_from(given) {
            Ok(index) if index > high => Err(Failure::Argument(at, format!("{low} index must not be greater than the length of the list"))),
            Ok(index) if index < least => Err(Failure::Argument(at, "start index must not be greater than end index".to_string())),
            Ok(index) => Ok(index),
            Err(_) => Err(Failure::Argument(at, format!("{low} index must not be less than zero"))),
        }
    };
    let start = within(1, 0)?;
    let end = within(2, start)?;
    Ok(Value::Sequence(kind, list[start..end].to_vec()))
}

fn zipmap(given: &[Value]) -> Called {
    let (keys, values) = (items(given, 0)?, items(given, 1)?);
    if keys.len() != values.len() {
        return fail(format!("number of keys ({}) does not match number of values ({})", keys.len(), values.len()));
    }
    Ok(Value::object(keys.iter().map(text).zip(values.iter().cloned()).collect()))
}
