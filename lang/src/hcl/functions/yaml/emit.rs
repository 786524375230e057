//! Writes values as YAML in the reference's style: blocks, sorted names, texts in double quotes, or literal if they
//! have several lines.

use crate::hcl::value::Value;

/// Writes a whole document.
pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Sequence(_, items) if !items.is_empty() => sequence(items, 0, &mut out),
        Value::Mapping(_, members) if !members.is_empty() => mapping(members.iter(), 0, &mut out),
        Value::Null | Value::Unknown | Value::Bool(_) | Value::Number(_) => {
            scalar(value, 2, &mut out);
            // A plain word alone could continue on the next line, so the document is ended.
            out.push_str("...\n");
        }
        Value::Text(_) | Value::Sequence(..) | Value::Mapping(..) => scalar(value, 2, &mut out),
    }
    out
}

/// Writes items; the first one begins on the current line.
fn sequence(items: &[Value], indent: usize, out: &mut String) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            spaces(indent, out);
        }
        out.push_str("- ");
        match item {
            Value::Sequence(_, items) if !items.is_empty() => sequence(items, indent + 2, out),
            Value::Mapping(_, members) if !members.is_empty() => mapping(members.iter(), indent + 2, out),
            item => scalar(item, indent + 2, out),
        }
    }
}

/// Writes members; the first one begins on the current line.
fn mapping<'v>(members: impl Iterator<Item = (&'v String, &'v Value)>, indent: usize, out: &mut String) {
    for (at, (name, value)) in members.enumerate() {
        if at > 0 {
            spaces(indent, out);
        }
        // YAML requires an explicit key marker for a long name.
        let is_long = name.chars().count() > 128;
        if is_long {
            out.push_str("? ");
        }
        quoted(name, out);
        if is_long {
            out.push('\n');
            spaces(indent, out);
        }
        out.push(':');
        match value {
            // A list is not indented below its name.
            Value::Sequence(_, items) if !items.is_empty() => {
                out.push('\n');
                spaces(indent, out);
                sequence(items, indent, out);
            }
            Value::Mapping(_, members) if !members.is_empty() => {
                out.push('\n');
                spaces(indent + 2, out);
                mapping(members.iter(), indent + 2, out);
            }
            value => {
                out.push(' ');
                scalar(value, indent + 2, out);
            }
        }
    }
}

/// Writes a value after a name or a dash, with a line break; `indent` is the indentation of further lines.
fn scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null | Value::Unknown => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::Text(text) if fits_literal(text) => return literal(text, indent, out),
        Value::Text(text) => quoted(text, out),
        Value::Sequence(..) => out.push_str("[]"),
        Value::Mapping(..) => out.push_str("{}"),
    }
    out.push('\n');
}

fn spaces(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// Whether a text has several lines and a literal block can represent it.
fn fits_literal(text: &str) -> bool {
    text.contains('\n')
        && !text.ends_with(' ')
        && !text.contains(" \n")
        && text.chars().all(|letter| letter == '\n' || is_shown(letter))
}

fn is_shown(letter: char) -> bool {
    let is_break = matches!(letter, '\u{85}' | '\u{2028}' | '\u{2029}');
    !is_break
        && letter != '\u{feff}'
        && matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn literal(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let body = match text.strip_suffix('\n') {
        None => {
            out.push('-');
            text
        }
        Some(body) if body.is_empty() || body.ends_with('\n') => {
            out.push('+');
            body
        }
        Some(body) => body,
    };
    out.push('\n');
    for line in body.split('\n') {
        if !line.is_empty() {
            spaces(indent, out);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            shown if is_shown(shown) => out.push(shown),
            other if u32::from(other) <= 0xff => out.push_str(&format!("\\x{:02X}", u32::from(other))),
            other if u32::from(other) <= 0xffff => out.push_str(&format!("\\u{:04X}", u32::from(other))),
            other => out.push_str(&format!("\\U{:08X}", u32::from(other))),
        }
    }
    out.push('"');
}
