//! JSON as text in the form of the recordings: a space after each comma and colon, all non-ASCII characters escaped.
//! Sent bodies have this form too, so that their sizes are the recorded ones. Not here: parsing.

use serde_json::{Number, Value};

pub fn dump(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The first `max` characters, for messages.
pub fn shorten(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

pub fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            let text = format!("{float:?}");
            match text.split_once('e') {
                Some((digits, power)) if !power.starts_with('-') => {
                    format!("{digits}e+{power:0>2}")
                }
                _ => text,
            }
        }
        _ => number.to_string(),
    }
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(s) => quote(s, out),
        Value::Array(list) => {
            out.push('[');
            for (i, element) in list.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write(element, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, element)) in map.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                quote(key, out);
                out.push_str(": ");
                write(element, out);
            }
            out.push('}');
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}
