//! Identities of values: texts that are equal for equal values, so that a set of them replaces a search.

use std::fmt::Write as _;

use crate::template::Value;

/// The identity of a value. `None` if it has a part that is not equal to itself, which only NaN is.
pub(super) fn identity(value: &Value) -> Option<String> {
    let mut out = String::new();
    write(&mut out, value).then_some(out)
}

/// Writes the identity. Texts and lists begin with their lengths, so that different values cannot print the same.
fn write(out: &mut String, value: &Value) -> bool {
    // Writing to a text cannot fail.
    match value {
        Value::Missing | Value::Nil => out.push('n'),
        Value::Bool(truth) => drop(write!(out, "b{truth};")),
        Value::Int(number) => drop(write!(out, "i{number};")),
        Value::Uint(number) => drop(write!(out, "i{number};")),
        Value::Float(number) if number.is_nan() => return false,
        // Zero and minus zero are equal.
        Value::Float(number) => drop(write!(out, "f{};", (number + 0.0).to_bits())),
        Value::Text(text) => write_text(out, text),
        Value::List(list) => {
            let _ = write!(out, "l{};", list.items.len());
            write_text(out, list.of);
            return list.items.iter().all(|item| write(out, item));
        }
        Value::Map(map) => {
            let _ = write!(out, "m{};", map.items.len());
            write_text(out, map.of);
            return map.items.iter().all(|(key, item)| {
                write_text(out, key);
                write(out, item)
            });
        }
        Value::Record(record) => {
            let _ = write!(out, "r{};", record.fields.len());
            write_text(out, record.of);
            return record.fields.iter().all(|(_, field)| write(out, field));
        }
        Value::Object(object) => return write(out, &object.plain()),
    }
    true
}

fn write_text(out: &mut String, text: &str) {
    let _ = write!(out, "t{};{text}", text.len());
}
