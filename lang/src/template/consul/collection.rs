//! Lists and maps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::identity::identity;
use super::{Plain, arg};
use crate::template::builtin::equal;
use crate::template::{Type, Value, format};

/// Largest count of `loop`.
const LOOP_MAX: i64 = 1_000_000;

/// Largest product of a text's length and the number of texts that are looked for in it.
const SEARCHED_BYTES_MAX: usize = 1 << 28;

pub(super) const PLAIN: &[Plain] = &[
    ("byKey", &[Type::Any], None, |args| grouped(args, |item| vec![field_text(item, "Key")])),
    ("byTag", &[Type::Any], None, |args| grouped(args, tags_of)),
    ("contains", &[Type::Any, Type::Any], None, |args| has(&args[1], &args[0]).map(Value::Bool)),
    ("in", &[Type::Any, Type::Any], None, |args| has(&args[0], &args[1]).map(Value::Bool)),
    ("containsAll", &[Type::List, Type::Any], None, |args| counted(args, |found, count| found == count)),
    ("containsAny", &[Type::List, Type::Any], None, |args| counted(args, |found, _| found > 0)),
    ("containsNone", &[Type::List, Type::Any], None, |args| counted(args, |found, _| found == 0)),
    ("containsNotAll", &[Type::List, Type::Any], None, |args| counted(args, |found, count| found < count)),
    ("explode", &[Type::Any], None, explode),
    ("explodeMap", &[Type::Map], None, explode),
    ("loop", &[], Some(Type::Any), numbers),
    ("mergeMap", &[Type::Map, Type::Map], Some(Type::Map), |args| Ok(merged(args, false))),
    ("mergeMapWithOverride", &[Type::Map, Type::Map], Some(Type::Map), |args| Ok(merged(args, true))),
];

/// Whether a list has a value, a map a key, or a text a part.
fn has(of: &Value, wanted: &Value) -> Result<bool, String> {
    match (of.plain(), wanted) {
        (Value::List(list), _) => Ok(list.items.iter().any(|item| equal(item, wanted).unwrap_or(false))),
        (Value::Map(map), Value::Text(key)) => Ok(map.items.contains_key(key)),
        (Value::Text(text), Value::Text(part)) => Ok(text.contains(&**part)),
        (Value::Missing | Value::Nil | Value::Map(_) | Value::Text(_), _) => Ok(false),
        _ => Err(format!("{} is not a collection", format::plain(of))),
    }
}

fn counted(args: &[Value], decide: fn(usize, usize) -> bool) -> Result<Value, String> {
    let wanted = args[0].items().unwrap_or_default();
    let found = match args[1].plain() {
        Value::List(list) => {
            let known: BTreeSet<String> = list.items.iter().filter_map(scalar_identity).collect();
            let is_known = |item: &&Value| scalar_identity(item).is_some_and(|item| known.contains(&item));
            wanted.items.iter().filter(is_known).count()
        }
        Value::Text(text) if text.len().saturating_mul(wanted.items.len()) > SEARCHED_BYTES_MAX => {
            return Err("the template takes too many steps".to_owned());
        }
        _ => {
            let found: Result<Vec<bool>, String> = wanted.items.iter().map(|item| has(&args[1], item)).collect();
            found?.into_iter().filter(|found| *found).count()
        }
    };
    Ok(Value::Bool(decide(found, wanted.items.len())))
}

/// The identity of a value that can be compared; lists, maps and structures cannot.
fn scalar_identity(value: &Value) -> Option<String> {
    match value.plain() {
        Value::List(_) | Value::Map(_) | Value::Record(_) => None,
        scalar => identity(&scalar),
    }
}

/// Field of a structure as text.
fn field_text(item: &Value, name: &str) -> String {
    match item.plain() {
        Value::Record(record) => {
            let found = record.fields.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| format::plain(value)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn tags_of(item: &Value) -> Vec<String> {
    let Value::Record(record) = item.plain() else { return Vec::new() };
    let tags = record.fields.iter().find(|(name, _)| *name == "Tags").and_then(|(_, tags)| tags.items());
    tags.iter().flat_map(|tags| tags.items.iter().map(format::plain)).collect()
}

/// Elements by the names that `of` gives them.
fn grouped(args: &[Value], of: fn(&Value) -> Vec<String>) -> Result<Value, String> {
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for item in &args[0].items().unwrap_or_default().items {
        for name in of(item) {
            groups.entry(name).or_default().push(item.clone());
        }
    }
    Ok(Value::map(groups.into_iter().map(|(name, items)| (name.into(), Value::list(items))).collect()))
}

/// A flat map whose keys are paths, or a list of pairs, as maps in maps.
fn explode(args: &[Value]) -> Result<Value, String> {
    let mut tree = Tree::default();
    match args[0].plain() {
        Value::Map(map) => map.items.iter().try_for_each(|(key, value)| tree.put(key, value))?,
        Value::List(list) => list
            .items
            .iter()
            .try_for_each(|pair| tree.put(&field_text(pair, "Key"), &Value::text(field_text(pair, "Value"))))?,
        _ => {}
    }
    Ok(tree.value())
}

#[derive(Default)]
struct Tree {
    leaf: Option<Value>,
    below: BTreeMap<Arc<str>, Tree>,
}

impl Tree {
    fn put(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let mut place = self;
        for part in path.split('/').filter(|part| !part.is_empty()).take(100) {
            if place.leaf.is_some() {
                return Err(format!("cannot explode: {path:?} is below a value"));
            }
            place = place.below.entry(part.into()).or_default();
        }
        place.leaf = Some(value.clone());
        Ok(())
    }

    fn value(self) -> Value {
        match self.leaf {
            Some(value) => value,
            None => Value::map(self.below.into_iter().map(|(name, tree)| (name, tree.value())).collect()),
        }
    }
}

fn merged(args: &[Value], last_wins: bool) -> Value {
    let mut items = BTreeMap::new();
    // The given map comes last in a pipeline.
    for map in args {
        let Value::Map(map) = map else { continue };
        for (key, value) in &map.items {
            if last_wins || !items.contains_key(key) {
                items.insert(Arc::clone(key), value.clone());
            }
        }
    }
    Value::map(items)
}

/// `loop TO` and `loop FROM TO`.
fn numbers(args: &[Value]) -> Result<Value, String> {
    let number = |value: &Value| match value {
        Value::Int(number) => Ok(*number),
        Value::Uint(number) => Ok(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Text(text) => text.parse().map_err(|_| format!("loop: {text:?} is no number")),
        other => Err(format!("loop: bad parameter type {}", other.type_name())),
    };
    let (from, to) = match args {
        [to] => (0, number(to)?),
        [from, to] => (number(from)?, number(to)?),
        _ => return Err(format!("loop: wrong number of arguments, expected 1 or 2, but got {}", args.len())),
    };
    if to.saturating_sub(from) > LOOP_MAX {
        return Err(format!("loop: more than {LOOP_MAX} rounds"));
    }
    Ok(Value::list((from..to).map(Value::Int).collect()))
}

/// Texts of a list.
pub(super) fn texts(value: &Value) -> Vec<String> {
    value.items().iter().flat_map(|list| list.items.iter().map(format::plain)).collect()
}

/// `split` with the separator first.
pub(super) fn split(args: &[Value]) -> Result<Value, String> {
    let (separator, text) = (arg(args, 0), arg(args, 1).trim());
    if text.is_empty() {
        return Ok(Value::texts::<&str>([]));
    }
    if separator.is_empty() {
        return Ok(Value::texts(text.chars().map(String::from)));
    }
    Ok(Value::texts(text.split(separator)))
}
