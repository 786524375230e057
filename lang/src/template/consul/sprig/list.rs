//! Lists.

use std::collections::BTreeSet;

use super::{Called, Plain, is_empty, is_nil, kind, math, same};
use crate::template::consul::identity::identity;
use crate::template::value::List;
use crate::template::{Type, Value};

/// Largest count of numbers that `until` and `seq` make.
const COUNT_MAX: i64 = 1_000_000;

pub(super) const PLAIN: &[Plain] = &[
    ("append", &[Type::Any, Type::Any], None, append),
    ("chunk", &[Type::Int, Type::Any], None, chunk),
    ("compact", &[Type::Any], None, compact),
    ("concat", &[], Some(Type::Any), concat),
    ("first", &[Type::Any], None, first),
    ("has", &[Type::Any, Type::Any], None, has),
    ("initial", &[Type::Any], None, initial),
    ("last", &[Type::Any], None, last),
    ("list", &[], Some(Type::Any), |args| Ok(Value::list(args.to_vec()))),
    ("mustAppend", &[Type::Any, Type::Any], None, append),
    ("mustChunk", &[Type::Int, Type::Any], None, chunk),
    ("mustCompact", &[Type::Any], None, compact),
    ("mustFirst", &[Type::Any], None, first),
    ("mustHas", &[Type::Any, Type::Any], None, has),
    ("mustInitial", &[Type::Any], None, initial),
    ("mustLast", &[Type::Any], None, last),
    ("mustPrepend", &[Type::Any, Type::Any], None, prepend),
    ("mustPush", &[Type::Any, Type::Any], None, append),
    ("mustRest", &[Type::Any], None, rest),
    ("mustReverse", &[Type::Any], None, reverse),
    ("mustSlice", &[Type::Any], Some(Type::Any), slice),
    ("mustUniq", &[Type::Any], None, unique),
    ("mustWithout", &[Type::Any], Some(Type::Any), without),
    ("prepend", &[Type::Any, Type::Any], None, prepend),
    ("push", &[Type::Any, Type::Any], None, append),
    ("rest", &[Type::Any], None, rest),
    ("reverse", &[Type::Any], None, reverse),
    ("seq", &[], Some(Type::Int), sequence),
    ("slice", &[Type::Any], Some(Type::Any), slice),
    ("tuple", &[], Some(Type::Any), |args| Ok(Value::list(args.to_vec()))),
    ("uniq", &[Type::Any], None, unique),
    ("until", &[Type::Int], None, |args| {
        let to = math::whole(&args[0]);
        until(0, to, if to < 0 { -1 } else { 1 }).map(integers)
    }),
    ("untilStep", &[Type::Int, Type::Int, Type::Int], None, |args| {
        until(math::whole(&args[0]), math::whole(&args[1]), math::whole(&args[2])).map(integers)
    }),
    ("without", &[Type::Any], Some(Type::Any), without),
];

/// Elements of a list. The error for another value begins with `complaint` and ends with the kind of its type.
fn elements(value: &Value, complaint: &str) -> Result<Vec<Value>, String> {
    match value.items() {
        Some(list) => Ok(list.items.clone()),
        // The text of Go's panic.
        None if is_nil(value) => Err("runtime error: invalid memory address or nil pointer dereference".to_owned()),
        None => Err(format!("{complaint} {}", kind(value))),
    }
}

fn append(args: &[Value]) -> Called {
    let mut items = elements(&args[0], "Cannot push on type")?;
    items.push(args[1].clone());
    Ok(Value::list(items))
}

fn prepend(args: &[Value]) -> Called {
    let mut items = elements(&args[0], "Cannot prepend on type")?;
    items.insert(0, args[1].clone());
    Ok(Value::list(items))
}

fn concat(args: &[Value]) -> Called {
    let mut all = Vec::new();
    for list in args {
        let items = elements(list, "Cannot concat type");
        all.extend(items.map_err(|error| if is_nil(list) { error } else { format!("{error} as list") })?);
    }
    Ok(Value::list(all))
}

fn first(args: &[Value]) -> Called {
    Ok(elements(&args[0], "Cannot find first on type")?.first().cloned().unwrap_or(Value::Nil))
}

fn last(args: &[Value]) -> Called {
    Ok(elements(&args[0], "Cannot find last on type")?.last().cloned().unwrap_or(Value::Nil))
}

fn rest(args: &[Value]) -> Called {
    Ok(Value::list(elements(&args[0], "Cannot find rest on type")?.into_iter().skip(1).collect()))
}

fn initial(args: &[Value]) -> Called {
    let mut items = elements(&args[0], "Cannot find initial on type")?;
    items.pop();
    Ok(Value::list(items))
}

fn reverse(args: &[Value]) -> Called {
    Ok(Value::list(elements(&args[0], "Cannot find reverse on type")?.into_iter().rev().collect()))
}

fn compact(args: &[Value]) -> Called {
    let items = elements(&args[0], "Cannot compact on type")?;
    Ok(Value::list(items.into_iter().filter(|item| !is_empty(item)).collect()))
}

fn unique(args: &[Value]) -> Called {
    let items = elements(&args[0], "Cannot find uniq on type")?;
    let mut known = BTreeSet::new();
    let is_new = |item: &Value| identity(item).is_none_or(|item| known.insert(item));
    Ok(Value::list(items.into_iter().filter(is_new).collect()))
}

fn without(args: &[Value]) -> Called {
    let items = elements(&args[0], "Cannot find without on type")?;
    let left_out: BTreeSet<String> = args.iter().skip(1).filter_map(identity).collect();
    let stays = |item: &Value| identity(item).is_none_or(|item| !left_out.contains(&item));
    Ok(Value::list(items.into_iter().filter(stays).collect()))
}

fn has(args: &[Value]) -> Called {
    if is_nil(&args[1]) {
        return Ok(Value::Bool(false));
    }
    let items = elements(&args[1], "Cannot find has on type")?;
    Ok(Value::Bool(items.iter().any(|item| same(item, &args[0]))))
}

fn slice(args: &[Value]) -> Called {
    let Some(list) = args[0].items() else {
        let refusal = elements(&args[0], "list should be type of slice or array but").err();
        return Err(refusal.unwrap_or_default());
    };
    if list.items.is_empty() {
        return Ok(Value::Nil);
    }
    let end = |at: usize, otherwise: usize| match args.get(at) {
        Some(value) => usize::try_from(math::whole(value)).unwrap_or(usize::MAX),
        None => otherwise,
    };
    let part = list.items.get(end(1, 0)..end(2, list.items.len()));
    let part = part.ok_or("reflect.Value.Slice: slice index out of bounds")?;
    Ok(Value::List(std::sync::Arc::new(List::new(list.of, part.to_vec()))))
}

fn chunk(args: &[Value]) -> Called {
    let items = elements(&args[1], "Cannot chunk type")?;
    let size = usize::try_from(math::whole(&args[0])).ok().filter(|size| *size > 0);
    let size = size.ok_or("runtime error: makeslice: len out of range")?;
    let chunks = items.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect();
    Ok(Value::List(std::sync::Arc::new(List::new("[]interface {}", chunks))))
}

/// Whole numbers from one to before another.
fn until(from: i64, to: i64, step: i64) -> Result<Vec<i64>, String> {
    if step == 0 || (step > 0) != (to > from) {
        return Ok(Vec::new());
    }
    let count = (i128::from(to) - i128::from(from)) / i128::from(step);
    if count > i128::from(COUNT_MAX) {
        return Err(format!("more than {COUNT_MAX} numbers"));
    }
    let mut numbers = Vec::new();
    let mut number = from;
    while (step > 0 && number < to) || (step < 0 && number > to) {
        numbers.push(number);
        number = number.saturating_add(step);
    }
    Ok(numbers)
}

fn integers(numbers: Vec<i64>) -> Value {
    Value::List(std::sync::Arc::new(List::new("int", numbers.into_iter().map(Value::Int).collect())))
}

/// Numbers from the first to the last one as a text, as the program `seq` prints them.
fn sequence(args: &[Value]) -> Called {
    let numbers: Vec<i64> = args.iter().map(math::whole).collect();
    let (from, step, to) = match *numbers.as_slice() {
        [to] => (1, None, to),
        [from, to] => (from, None, to),
        [from, step, to] => (from, Some(step), to),
        _ => return Ok(Value::text("")),
    };
    let direction = if to < from { -1 } else { 1 };
    if to < from && step.is_some_and(|step| step > 0) {
        return Ok(Value::text(""));
    }
    let numbers = until(from, to.saturating_add(direction), step.unwrap_or(direction))?;
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(Value::text(texts.join(" ")))
}
