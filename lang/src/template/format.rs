//! Values as text: Go's `Sprint`, `Sprintln` and `Sprintf`.

mod float;
mod verb;

use std::fmt::Write as _;

pub(super) use float::shortest;
use verb::Verb;

use super::value::Value;

/// Largest text that one call makes, in bytes.
const BYTES_MAX: usize = 64 << 20;
/// Power of ten from which on floating-point numbers are written with an exponent.
pub(super) const EXPONENT_FROM: i32 = 6;
/// Largest width or precision of a verb.
const WIDTH_MAX: usize = 1_000_000;

/// The output of an action with this value.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Missing | Value::Nil => "<no value>".to_owned(),
        other => {
            let text = plain(other);
            // An action prints what a pointer points to.
            if matches!(other, Value::Record(record) if record.of.starts_with('*')) {
                text.strip_prefix('&').map(str::to_owned).unwrap_or(text)
            } else {
                text
            }
        }
    }
}

/// A value as `%v` prints it.
pub(super) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(&mut out, value, &Verb::default(), true);
    out
}

/// Writes a value as `%v`, or as `%+v`.
fn write_plain(out: &mut String, value: &Value, verb: &Verb, is_top: bool) {
    match value {
        Value::Missing | Value::Nil => out.push_str("<nil>"),
        // Writing to a text cannot fail.
        Value::Bool(truth) => drop(write!(out, "{truth}")),
        Value::Int(number) => drop(write!(out, "{number}")),
        Value::Uint(number) => drop(write!(out, "{number}")),
        Value::Float(number) => out.push_str(&shortest(*number, EXPONENT_FROM)),
        Value::Text(text) => out.push_str(text),
        Value::List(list) => {
            out.push('[');
            for (at, item) in list.items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                write_plain(out, item, verb, false);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push_str("map[");
            for (at, (key, item)) in map.items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_plain(out, item, verb, false);
            }
            out.push(']');
        }
        Value::Record(record) => {
            if record.of.starts_with('*') && is_top {
                out.push('&');
            }
            out.push('{');
            for (at, (name, field)) in record.fields.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                if verb.plus {
                    out.push_str(name);
                    out.push(':');
                }
                write_plain(out, field, verb, false);
            }
            out.push('}');
        }
        Value::Object(object) => match object.printed() {
            Some(text) => out.push_str(&text),
            None => write_plain(out, &object.plain(), verb, is_top),
        },
    }
}

/// Values one after another, with a space between two of which neither is a text.
pub(super) fn sprint(values: &[Value]) -> String {
    let mut out = String::new();
    let mut was_text = true;
    for (at, value) in values.iter().enumerate() {
        let is_text = matches!(value, Value::Text(_));
        if at > 0 && !is_text && !was_text {
            out.push(' ');
        }
        write_plain(&mut out, value, &Verb::default(), true);
        was_text = is_text;
    }
    out
}

/// Values with a space between any two, and a line break.
pub(super) fn sprintln(values: &[Value]) -> String {
    let all: Vec<String> = values.iter().map(plain).collect();
    format!("{}\n", all.join(" "))
}

/// Values by a pattern.
pub(super) fn sprintf(pattern: &str, values: &[Value]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = pattern;
    let mut next = 0;
    let mut reordered = false;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (verb, length) = Verb::parse(rest, values, &mut next, &mut reordered);
        rest = &rest[length..];
        match verb.letter {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(letter) if verb.bad_index => drop(write!(out, "%!{letter}(BADINDEX)")),
            Some(letter) => match values.get(next) {
                None => drop(write!(out, "%!{letter}(MISSING)")),
                Some(value) => {
                    next += 1;
                    verb.write(&mut out, value);
                }
            },
        }
        if out.len() > BYTES_MAX {
            return Err("the text is too long".to_owned());
        }
    }
    out.push_str(rest);
    if !reordered && next < values.len() {
        out.push_str("%!(EXTRA ");
        for (at, value) in values[next..].iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            match value {
                Value::Missing | Value::Nil => out.push_str("<nil>"),
                value => drop(write!(out, "{}={}", value.type_name(), plain(value))),
            }
        }
        out.push(')');
    }
    Ok(out)
}
