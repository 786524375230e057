//! Types, and conversion of values to them with the reference's error texts.

use std::collections::BTreeMap;

use super::value::{Mapping, Number, Sequence, Value};

/// A target type of conversions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Any,
    Bool,
    Number,
    Text,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>),
    Tuple(Vec<Type>),
    Object(BTreeMap<String, Type>),
}

impl Type {
    /// The type's name in error texts.
    pub(crate) fn name(&self) -> String {
        match self {
            Type::Any => "any single type".to_string(),
            Type::Bool => "bool".to_string(),
            Type::Number => "number".to_string(),
            Type::Text => "string".to_string(),
            Type::List(of) => format!("list of {}", of.name()),
            Type::Set(of) => format!("set of {}", of.name()),
            Type::Map(of) => format!("map of {}", of.name()),
            Type::Tuple(_) => "tuple".to_string(),
            Type::Object(_) => "object".to_string(),
        }
    }

    /// The type as Go prints its fields: the form in which the reference tells the type of a value that is no duration.
    pub(crate) fn in_go(&self) -> String {
        let primitive = |letter: char| format!("{{{{{{}} %!s(cty.primitiveTypeKind={})}}}}", u32::from(letter));
        let compound = |of: String| format!("{{{{{{}} {of}}}}}");
        match self {
            Type::Any => "{{{}}}".to_string(),
            Type::Bool => primitive('B'),
            Type::Number => primitive('N'),
            Type::Text => primitive('S'),
            Type::List(of) | Type::Set(of) | Type::Map(of) => compound(of.in_go()),
            Type::Tuple(types) => {
                let parts: Vec<String> = types.iter().map(Type::in_go).collect();
                compound(format!("[{}]", parts.join(" ")))
            }
            Type::Object(types) => {
                let parts: Vec<String> = types.iter().map(|(name, of)| format!("{name}:{}", of.in_go())).collect();
                compound(format!("map[{}] map[]", parts.join(" ")))
            }
        }
    }
}

/// The type of a value, as a target for other values.
pub(crate) fn type_of(value: &Value) -> Type {
    match value {
        Value::Null | Value::Unknown => Type::Any,
        Value::Bool(_) => Type::Bool,
        Value::Number(_) => Type::Number,
        Value::Text(_) => Type::Text,
        Value::Sequence(Sequence::Tuple, items) => Type::Tuple(items.iter().map(type_of).collect()),
        Value::Sequence(Sequence::List, items) => Type::List(Box::new(items.first().map_or(Type::Any, type_of))),
        Value::Sequence(Sequence::Set, items) => Type::Set(Box::new(items.first().map_or(Type::Any, type_of))),
        Value::Mapping(Mapping::Object, members) => {
            Type::Object(members.iter().map(|(name, value)| (name.clone(), type_of(value))).collect())
        }
        Value::Mapping(Mapping::Map, members) => {
            Type::Map(Box::new(members.values().next().map_or(Type::Any, type_of)))
        }
    }
}

/// Converts `value`; the error is the reference's reason.
pub(crate) fn convert(value: &Value, wanted: &Type) -> Result<Value, String> {
    match (value, wanted) {
        (value, Type::Any) => Ok(value.clone()),
        (Value::Null, _) => Ok(Value::Null),
        (Value::Unknown, _) => Ok(Value::Unknown),
        (Value::Bool(_), Type::Bool) | (Value::Number(_), Type::Number) | (Value::Text(_), Type::Text) => {
            Ok(value.clone())
        }
        (Value::Bool(truth), Type::Text) => Ok(Value::Text(truth.to_string())),
        (Value::Number(number), Type::Text) => Ok(Value::Text(number.to_string())),
        (Value::Text(text), Type::Number) => match Number::parse(text) {
            Some(number) => Ok(Value::Number(number)),
            None => Err("a number is required".to_string()),
        },
        (Value::Text(text), Type::Bool) => match text.as_str() {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            "True" | "TRUE" => Err(format!("a bool is required; to convert from string, use lowercase {:?}", "true")),
            "False" | "FALSE" => {
                Err(format!("a bool is required; to convert from string, use lowercase {:?}", "false"))
            }
            _ => Err("a bool is required".to_string()),
        },
        (Value::Sequence(from, items), Type::List(of)) => {
            sequence(items, of, wanted, *from).map(|items| Value::Sequence(Sequence::List, items))
        }
        (Value::Sequence(from, items), Type::Set(of)) => {
            sequence(items, of, wanted, *from).map(|items| Value::Sequence(Sequence::Set, as_set(items)))
        }
        (Value::Sequence(Sequence::Tuple, items), Type::Tuple(types)) if items.len() == types.len() => {
            let converted =
                items.iter().zip(types).enumerate().map(|(at, (item, wanted))| {
                    convert(item, wanted).map_err(|reason| format!("element {at}: {reason}"))
                });
            converted.collect::<Result<_, _>>().map(|items| Value::Sequence(Sequence::Tuple, items))
        }
        (Value::Mapping(from, members), Type::Map(of)) => mapping(members, of, wanted, *from),
        (Value::Mapping(_, members), Type::Object(types)) => object(members, types),
        (_, wanted) => Err(format!("{} required", wanted.name())),
    }
}

fn sequence(items: &[Value], of: &Type, wanted: &Type, from: Sequence) -> Result<Vec<Value>, String> {
    let mut converted = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        converted.push(convert(item, of).map_err(|reason| match (from, of) {
            // All elements of a list have one type, so the error names the types and not the element.
            (Sequence::List | Sequence::Set, _) if !matches!(of, Type::Any) && reason.ends_with(" required") => {
                format!("{} required", wanted.name())
            }
            _ => format!("element {at}: {reason}"),
        })?);
    }
    if *of == Type::Any {
        converted = unified(converted).map_err(|()| "all list elements must have the same type".to_string())?;
    }
    Ok(converted)
}

fn mapping(members: &BTreeMap<String, Value>, of: &Type, wanted: &Type, from: Mapping) -> Result<Value, String> {
    let mut converted = BTreeMap::new();
    for (name, value) in members {
        let value = convert(value, of).map_err(|reason| match from {
            Mapping::Map => format!("{} required", wanted.name()),
            // The error for a value that looks like a number but is not is shown without the key.
            Mapping::Object if reason.starts_with("a ") => reason,
            Mapping::Object => format!("element {name:?}: {reason}"),
        })?;
        converted.insert(name.clone(), value);
    }
    if *of == Type::Any {
        let (names, values): (Vec<String>, Vec<Value>) = converted.into_iter().unzip();
        let values = unified(values).map_err(|()| "all map elements must have the same type".to_string())?;
        converted = names.into_iter().zip(values).collect();
    }
    Ok(Value::Mapping(Mapping::Map, converted))
}

fn object(members: &BTreeMap<String, Value>, types: &BTreeMap<String, Type>) -> Result<Value, String> {
    let missing: Vec<String> =
        types.keys().filter(|name| !members.contains_key(*name)).map(|name| format!("{name:?}")).collect();
    match missing.as_slice() {
        [] => {}
        [only] => return Err(format!("attribute {only} is required")),
        [first, second] => return Err(format!("attributes {first} and {second} are required")),
        [before @ .., last] => return Err(format!("attributes {}, and {last} are required", before.join(", "))),
    }
    let mut converted = BTreeMap::new();
    for (name, wanted) in types {
        let value = members.get(name).unwrap_or(&Value::Null);
        converted
            .insert(name.clone(), convert(value, wanted).map_err(|reason| format!("attribute {name:?}: {reason}"))?);
    }
    Ok(Value::Mapping(Mapping::Object, converted))
}

/// Converts all values to the one type that fits all of them; null and unknown values are of any type.
pub(crate) fn unified(values: Vec<Value>) -> Result<Vec<Value>, ()> {
    let types: Vec<Type> = values.iter().map(type_of).collect();
    let common = common_type(types.iter()).ok_or(())?;
    values.iter().map(|value| convert(value, &common).map_err(|_| ())).collect()
}

/// The type that values of all these types can be converted to. Texts win over numbers and booleans. Tuples of one
/// length stay tuples if their elements fit pairwise, and objects of the same names objects; others become lists and
/// maps.
fn common_type<'t>(types: impl Iterator<Item = &'t Type>) -> Option<Type> {
    let mut common = Type::Any;
    for next in types {
        common = common_of_two(&common, next)?;
    }
    Some(common)
}

fn common_of_two(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        (Type::Any, other) | (other, Type::Any) => Some(other.clone()),
        (a, b) if a == b => Some(a.clone()),
        (Type::Text, Type::Bool | Type::Number) | (Type::Bool | Type::Number, Type::Text) => Some(Type::Text),
        (Type::Bool | Type::Number | Type::Text, _) | (_, Type::Bool | Type::Number | Type::Text) => None,
        (Type::Tuple(a), Type::Tuple(b)) => common_tuple(a, b),
        (Type::Object(a), Type::Object(b)) => common_object(a, b),
        (Type::Set(_), _) | (_, Type::Set(_)) => Some(Type::Set(Box::new(common_element(a, b)?))),
        (Type::List(_) | Type::Tuple(_), Type::List(_) | Type::Tuple(_)) => {
            Some(Type::List(Box::new(common_element(a, b)?)))
        }
        (Type::Map(_) | Type::Object(_), Type::Map(_) | Type::Object(_)) => {
            Some(Type::Map(Box::new(common_element(a, b)?)))
        }
        (Type::List(_) | Type::Tuple(_), Type::Map(_) | Type::Object(_))
        | (Type::Map(_) | Type::Object(_), Type::List(_) | Type::Tuple(_)) => None,
    }
}

fn common_tuple(a: &[Type], b: &[Type]) -> Option<Type> {
    let pairwise = || a.iter().zip(b).map(|(a, b)| common_of_two(a, b)).collect::<Option<Vec<Type>>>();
    match (a.len() == b.len()).then(pairwise).flatten() {
        Some(elements) => Some(Type::Tuple(elements)),
        None => Some(Type::List(Box::new(common_type(a.iter().chain(b))?))),
    }
}

fn common_object(a: &BTreeMap<String, Type>, b: &BTreeMap<String, Type>) -> Option<Type> {
    let by_name = || {
        let of_both = a.iter().zip(b.values()).map(|((name, a), b)| Some((name.clone(), common_of_two(a, b)?)));
        of_both.collect::<Option<BTreeMap<String, Type>>>()
    };
    match a.keys().eq(b.keys()).then(by_name).flatten() {
        Some(members) => Some(Type::Object(members)),
        None => Some(Type::Map(Box::new(common_type(a.values().chain(b.values()))?))),
    }
}

/// The type that the elements of two collections have in common; `None` also if a sequence meets a mapping.
fn common_element(a: &Type, b: &Type) -> Option<Type> {
    let elements = |of: &Type| match of {
        Type::List(of) | Type::Set(of) => Some((true, common_type(std::iter::once(&**of))?)),
        Type::Tuple(types) => Some((true, common_type(types.iter())?)),
        Type::Map(of) => Some((false, common_type(std::iter::once(&**of))?)),
        Type::Object(types) => Some((false, common_type(types.values())?)),
        Type::Any | Type::Bool | Type::Number | Type::Text => None,
    };
    let ((a_sequence, a), (b_sequence, b)) = (elements(a)?, elements(b)?);
    if a_sequence == b_sequence { common_of_two(&a, &b) } else { None }
}

/// Removes duplicates and sorts the rest.
pub(crate) fn as_set(items: Vec<Value>) -> Vec<Value> {
    let mut distinct: Vec<Value> = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct.sort_by(|a, b| match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.compare(*b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        _ => std::cmp::Ordering::Equal,
    });
    distinct
}
