//! Values as JSON, as Go writes it.

use std::fmt::Write as _;

use crate::template::Value;
use crate::template::format::shortest;

/// How JSON is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Whether `<`, `>` and `&` are written as escapes.
    pub escape: bool,
    /// Whether each element has its own line.
    pub pretty: bool,
}

/// A value as JSON.
pub(super) fn text(value: &Value, style: Style) -> String {
    let mut out = String::new();
    write(&mut out, value, style, 0);
    out
}

fn write(out: &mut String, value: &Value, style: Style, depth: usize) {
    match value {
        Value::Missing | Value::Nil => out.push_str("null"),
        // Writing to a text cannot fail.
        Value::Bool(truth) => drop(write!(out, "{truth}")),
        Value::Int(number) => drop(write!(out, "{number}")),
        Value::Uint(number) => drop(write!(out, "{number}")),
        Value::Float(number) => out.push_str(&float(*number)),
        Value::Text(text) => quoted(out, text, style.escape),
        Value::List(list) => {
            let items = list.items.iter().map(|item| (None, item));
            group(out, ('[', ']'), items, style, depth);
        }
        Value::Map(map) => {
            let items = map.items.iter().map(|(key, item)| (Some(&**key), item));
            group(out, ('{', '}'), items, style, depth);
        }
        Value::Record(record) => {
            let items = record.fields.iter().map(|(name, item)| (Some(*name), item));
            group(out, ('{', '}'), items, style, depth);
        }
        Value::Object(object) => match object.printed() {
            Some(text) => quoted(out, &text, style.escape),
            None => write(out, &object.plain(), style, depth),
        },
    }
}

fn group<'v>(
    out: &mut String,
    (open, close): (char, char),
    items: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
    style: Style,
    depth: usize,
) {
    let line = |out: &mut String, depth: usize| {
        if style.pretty {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    out.push(open);
    let mut any = false;
    for (key, item) in items {
        if std::mem::replace(&mut any, true) {
            out.push(',');
        }
        line(out, depth + 1);
        if let Some(key) = key {
            quoted(out, key, style.escape);
            out.push_str(if style.pretty { ": " } else { ":" });
        }
        write(out, item, style, depth + 1);
    }
    if any {
        line(out, depth);
    }
    out.push(close);
}

fn float(number: f64) -> String {
    if number != 0.0 && (number.abs() < 1e-6 || number.abs() >= 1e21) {
        // An exponent has no leading zero here.
        return shortest(number, -100).replace("e-0", "e-");
    }
    format!("{number}")
}

fn quoted(out: &mut String, text: &str, escape: bool) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' if escape => drop(write!(out, "\\u{:04x}", u32::from(letter))),
            '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => drop(write!(out, "\\u{:04x}", u32::from(letter))),
            _ => out.push(letter),
        }
    }
    out.push('"');
}
