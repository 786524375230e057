//! Functions that belong to the language.

use std::cmp::Ordering;
use std::fmt::Write as _;

use super::value::{Value, bytes_of_text, text_of_bytes};
use super::{Signature, Type, format};
use crate::url;

/// Parameters of a function; `None` if the language has no such function.
pub(super) fn signature(name: &str) -> Option<Signature> {
    let (params, rest): (&'static [Type], _) = match name {
        "and" | "or" | "call" | "index" | "slice" => (&[Type::Any], Some(Type::Any)),
        "eq" => (&[Type::Any], Some(Type::Any)),
        "ne" | "lt" | "le" | "gt" | "ge" => (&[Type::Any, Type::Any], None),
        "html" | "js" | "urlquery" | "print" | "println" => (&[], Some(Type::Any)),
        "printf" => (&[Type::Text], Some(Type::Any)),
        "len" | "not" => (&[Type::Any], None),
        _ => return None,
    };
    Some(Signature { params, rest })
}

/// Calls a function with arguments that fit its signature.
pub(super) fn call(name: &str, args: &[Value]) -> Result<Value, String> {
    match (name, args) {
        ("html", _) => Ok(Value::text(html(&together(args)))),
        ("js", _) => Ok(Value::text(js(&together(args)))),
        ("urlquery", _) => Ok(Value::text(url::query(&bytes_of_text(&together(args))))),
        ("print", _) => Ok(Value::text(format::sprint(args))),
        ("println", _) => Ok(Value::text(format::sprintln(args))),
        ("printf", [Value::Text(pattern), rest @ ..]) => format::sprintf(pattern, rest).map(Value::text),
        ("len", [value]) => len(value),
        ("not", [value]) => Ok(Value::Bool(!value.is_true())),
        ("index", [of, indexes @ ..]) => index(of, indexes),
        ("slice", [of, indexes @ ..]) => slice(of, indexes),
        ("call", [Value::Missing | Value::Nil, ..]) => Err("call of nil".to_owned()),
        ("call", [value, ..]) => Err(format!("non-function {} of type {}", format::plain(value), value.type_name())),
        ("eq", [_]) => Err("missing argument for comparison".to_owned()),
        ("eq", [first, others @ ..]) => {
            for other in others {
                if equal(first, other)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        ("ne", [a, b]) => equal(a, b).map(|same| Value::Bool(!same)),
        ("lt", [a, b]) => order(a, b).map(|order| Value::Bool(order == Some(Ordering::Less))),
        ("le", [a, b]) => order(a, b).map(|order| Value::Bool(matches!(order, Some(Ordering::Less | Ordering::Equal)))),
        ("gt", [a, b]) => order(a, b).map(|order| Value::Bool(order == Some(Ordering::Greater))),
        ("ge", [a, b]) => {
            order(a, b).map(|order| Value::Bool(matches!(order, Some(Ordering::Greater | Ordering::Equal))))
        }
        _ => Err(format!("{name} cannot be called so")),
    }
}

/// The text that functions for escaping work on.
fn together(args: &[Value]) -> String {
    let shown = |arg: &Value| match arg {
        Value::Missing | Value::Nil => Value::text(format::printed(arg)),
        other => other.clone(),
    };
    format::sprint(&args.iter().map(shown).collect::<Vec<Value>>())
}

fn len(value: &Value) -> Result<Value, String> {
    let count = match value.plain() {
        Value::Text(text) => bytes_of_text(&text).len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.items.len(),
        // The text of Go's panic, which its call of the function turns into an error.
        Value::Missing => return Err("reflect: call of reflect.Value.Type on zero Value".to_owned()),
        Value::Nil => return Err("len of nil pointer".to_owned()),
        _ => return Err(format!("len of type {}", value.type_name())),
    };
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// A place in something with so many elements. `most` is the largest that is allowed.
fn place(index: &Value, most: usize) -> Result<usize, String> {
    let (found, shown) = match index {
        Value::Int(number) => (usize::try_from(*number).ok(), number.to_string()),
        Value::Uint(number) => (usize::try_from(*number).ok(), number.to_string()),
        Value::Missing | Value::Nil => return Err("cannot index slice/array with nil".to_owned()),
        other => return Err(format!("cannot index slice/array with type {}", other.type_name())),
    };
    found.filter(|found| *found <= most).ok_or_else(|| format!("index out of range: {shown}"))
}

/// A place of an element.
fn inside(index: &Value, count: usize) -> Result<usize, String> {
    let found = place(index, count)?;
    if found < count { Ok(found) } else { Err(format!("index out of range: {found}")) }
}

fn index(of: &Value, indexes: &[Value]) -> Result<Value, String> {
    let mut value = of.clone();
    if matches!(value, Value::Missing | Value::Nil) {
        return Err("index of untyped nil".to_owned());
    }
    for index in indexes {
        value = match value.plain() {
            Value::Missing | Value::Nil => return Err("index of nil pointer".to_owned()),
            Value::List(list) => list.items[inside(index, list.items.len())?].clone(),
            Value::Text(text) => {
                let bytes = bytes_of_text(&text);
                Value::Uint(bytes[inside(index, bytes.len())?].into())
            }
            Value::Map(map) => match index {
                Value::Text(key) => map.items.get(key).cloned().unwrap_or_else(|| map.zero.clone()),
                Value::Missing | Value::Nil => return Err("value is nil; should be of type string".to_owned()),
                other => return Err(format!("value has type {}; should be string", other.type_name())),
            },
            other => return Err(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(value)
}

fn slice(of: &Value, indexes: &[Value]) -> Result<Value, String> {
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let plain = of.plain();
    let count = match &plain {
        Value::Text(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".to_owned()),
        Value::Text(text) => bytes_of_text(text).len(),
        Value::List(list) => list.items.len(),
        Value::Missing | Value::Nil => return Err("slice of untyped nil".to_owned()),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut ends = [0, count, count];
    for (end, index) in ends.iter_mut().zip(indexes) {
        *end = place(index, count)?;
    }
    let [from, to, most] = ends;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    if to > most {
        return Err(format!("invalid slice index: {to} > {most}"));
    }
    Ok(match plain {
        Value::List(list) => Value::List(std::sync::Arc::new(super::List::new(list.of, list.items[from..to].to_vec()))),
        Value::Text(text) => Value::text(text_of_bytes(&bytes_of_text(&text)[from..to])),
        other => other,
    })
}

/// Equality of values of comparable types.
pub(super) fn equal(a: &Value, b: &Value) -> Result<bool, String> {
    match (&a.plain(), &b.plain()) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Int(a), Value::Int(b)) => Ok(a == b),
        (Value::Uint(a), Value::Uint(b)) => Ok(a == b),
        (Value::Int(a), Value::Uint(b)) | (Value::Uint(b), Value::Int(a)) => Ok(u64::try_from(*a) == Ok(*b)),
        (Value::Float(a), Value::Float(b)) => Ok(a == b),
        (Value::Text(a), Value::Text(b)) => Ok(a == b),
        (Value::Missing | Value::Nil, Value::Missing | Value::Nil) => Ok(true),
        (Value::Missing | Value::Nil, _) | (_, Value::Missing | Value::Nil) => Ok(false),
        (value @ (Value::List(_) | Value::Map(_)), _) | (_, value @ (Value::List(_) | Value::Map(_))) => {
            Err(format!("non-comparable type {}: {}", format::plain(value), value.type_name()))
        }
        _ => Err("incompatible types for comparison".to_owned()),
    }
}

/// Order of values of ordered types; `None` if one is not a number.
fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, String> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(Some(a.cmp(b))),
        (Value::Uint(a), Value::Uint(b)) => Ok(Some(a.cmp(b))),
        (Value::Int(a), Value::Uint(b)) => Ok(Some(u64::try_from(*a).map_or(Ordering::Less, |a| a.cmp(b)))),
        (Value::Uint(a), Value::Int(b)) => Ok(Some(u64::try_from(*b).map_or(Ordering::Greater, |b| a.cmp(&b)))),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b)),
        (Value::Text(a), Value::Text(b)) => Ok(Some(a.cmp(b))),
        (Value::Bool(_), Value::Bool(_)) => Err("invalid type for comparison".to_owned()),
        (a, b) if is_basic(a) && is_basic(b) => Err("incompatible types for comparison".to_owned()),
        _ => Err("invalid type for comparison".to_owned()),
    }
}

fn is_basic(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_) | Value::Text(_))
}

/// A text as HTML.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(letter),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' => {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out
}
