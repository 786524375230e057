//! The functions of Sprig 3.2, whose names begin with [`PREFIX`] in templates. A file has those of one family.
//!
//! Left out are functions that make keys, certificates and passwords (`genPrivateKey`, `genCA`, `derivePassword`,
//! `bcrypt`, `encryptAES`, ..), and `getHostByName`, which would ask a name server. All integers are `int` here, also
//! those that are `int64` in Go.

mod date;
mod dict;
mod encode;
mod list;
mod math;
mod path;
mod random;
mod regex;
mod semver;
mod text;
mod words;

use std::sync::Arc;

use super::{Plain, Worldly, arg};
use crate::template::builtin::equal;
use crate::template::{Type, Value, format};

/// Beginning of the names in templates.
pub(super) const PREFIX: &str = "sprig_";

/// Functions of their arguments, by their names without the prefix.
pub(super) const PLAIN: &[&[Plain]] = &[
    GENERAL,
    dict::PLAIN,
    encode::PLAIN,
    list::PLAIN,
    math::PLAIN,
    path::PLAIN,
    regex::PLAIN,
    semver::PLAIN,
    text::PLAIN,
    words::PLAIN,
];

/// Functions of the time and of random bytes.
pub(super) const WORLDLY: &[&[Worldly]] = &[date::WORLDLY, random::WORLDLY];

/// Whether a function changes the map that is its first argument. `name` is that in templates.
pub(super) fn changes_its_map(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|name| dict::CHANGING.contains(&name))
}

type Called = Result<Value, String>;

const GENERAL: &[Plain] = &[
    ("default", &[Type::Any], Some(Type::Any), |args| {
        let given = args.get(1).filter(|given| !is_empty(given));
        Ok(given.unwrap_or(&args[0]).clone())
    }),
    ("empty", &[Type::Any], None, |args| Ok(Value::Bool(is_empty(&args[0])))),
    ("coalesce", &[], Some(Type::Any), |args| {
        Ok(args.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil))
    }),
    ("all", &[], Some(Type::Any), |args| Ok(Value::Bool(!args.iter().any(is_empty)))),
    ("any", &[], Some(Type::Any), |args| Ok(Value::Bool(!args.iter().all(is_empty)))),
    ("ternary", &[Type::Any, Type::Any, Type::Bool], None, |args| Ok(args[usize::from(!args[2].is_true())].clone())),
    ("fail", &[Type::Text], None, |args| Err(arg(args, 0).to_owned())),
    // The environment of the agent is not that of the task.
    ("env", &[Type::Text], None, |_| Ok(Value::text(""))),
    ("expandenv", &[Type::Text], None, |args| Ok(Value::text(without_variables(arg(args, 0))))),
    ("hello", &[], None, |_| Ok(Value::text("Hello!"))),
    ("deepEqual", &[Type::Any, Type::Any], None, |args| Ok(Value::Bool(same(&args[0], &args[1])))),
    ("kindIs", &[Type::Text, Type::Any], None, |args| Ok(Value::Bool(kind(&args[1]) == arg(args, 0)))),
    ("kindOf", &[Type::Any], None, |args| Ok(Value::text(kind(&args[0])))),
    ("toString", &[Type::Any], None, |args| Ok(Value::text(format::plain(&args[0])))),
    ("typeIs", &[Type::Text, Type::Any], None, |args| Ok(Value::Bool(type_of(&args[1]) == arg(args, 0)))),
    ("typeIsLike", &[Type::Text, Type::Any], None, |args| {
        let found = type_of(&args[1]);
        Ok(Value::Bool(found == arg(args, 0) || found.strip_prefix('*') == Some(arg(args, 0))))
    }),
    ("typeOf", &[Type::Any], None, |args| Ok(Value::text(type_of(&args[0])))),
];

fn is_nil(value: &Value) -> bool {
    matches!(value, Value::Missing | Value::Nil)
}

fn is_empty(value: &Value) -> bool {
    !value.is_true() && !matches!(value, Value::Record(_))
}

fn type_of(value: &Value) -> String {
    if is_nil(value) { "<nil>".to_owned() } else { value.type_name() }
}

/// Kind of a value's type in Go.
fn kind(value: &Value) -> String {
    if value.type_name().starts_with('*') {
        return "ptr".to_owned();
    }
    match value.plain() {
        Value::List(_) => "slice".to_owned(),
        Value::Map(_) => "map".to_owned(),
        Value::Record(_) => "struct".to_owned(),
        Value::Missing | Value::Nil => "invalid".to_owned(),
        other => other.type_name(),
    }
}

/// Equality of values, of lists and maps by their elements.
fn same(a: &Value, b: &Value) -> bool {
    match (&a.plain(), &b.plain()) {
        (Value::List(a), Value::List(b)) => {
            Arc::ptr_eq(a, b)
                || a.of == b.of
                    && a.items.len() == b.items.len()
                    && a.items.iter().zip(&b.items).all(|(a, b)| same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            Arc::ptr_eq(a, b)
                || a.of == b.of
                    && a.items.len() == b.items.len()
                    && a.items.iter().zip(&b.items).all(|((one, a), (other, b))| one == other && same(a, b))
        }
        (Value::Record(a), Value::Record(b)) => {
            a.of == b.of && a.fields.iter().zip(&b.fields).all(|((_, a), (_, b))| same(a, b))
        }
        (a, b) => equal(a, b).unwrap_or(false),
    }
}

/// A text whose `$NAME` and `${NAME}` are empty.
fn without_variables(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        rest = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').map_or("", |(_, after)| after),
            None => rest.trim_start_matches(|letter: char| letter == '_' || letter.is_ascii_alphanumeric()),
        };
    }
    out.push_str(rest);
    out
}

/// The texts of a list's elements, without those that are nothing; of another value its own.
fn texts(value: &Value) -> Vec<String> {
    match value.items() {
        Some(list) => list.items.iter().filter(|item| !is_nil(item)).map(format::plain).collect(),
        None if is_nil(value) => Vec::new(),
        None => vec![format::plain(value)],
    }
}
