//! Values to and from YAML.

use crate::hcl::functions::yaml_document;
use crate::hcl::value;
use crate::template::format::{EXPONENT_FROM, plain, shortest};
use crate::template::{Value, literal};

/// Reads YAML. Whole numbers stay whole.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::map(std::collections::BTreeMap::new()));
    }
    let read = yaml_document(text).map_err(|error| match error.strip_prefix("on ") {
        Some(error) => {
            let (line, rest) = error.split_once(", column").unwrap_or((error, ""));
            format!("yaml: {line}: {}", rest.split_once(": ").map_or("", |(_, reason)| reason))
        }
        None => format!("yaml: {error}"),
    })?;
    Ok(of_yaml(&read))
}

fn of_yaml(read: &value::Value) -> Value {
    match read {
        value::Value::Null | value::Value::Unknown => Value::Nil,
        value::Value::Bool(truth) => Value::Bool(*truth),
        value::Value::Number(number) => match number.to_string().parse() {
            Ok(whole) => Value::Int(whole),
            Err(_) => Value::Float(number.as_f64()),
        },
        value::Value::Text(text) => Value::text(text),
        value::Value::Sequence(_, items) => Value::list(items.iter().map(of_yaml).collect()),
        value::Value::Mapping(_, members) => {
            Value::map(members.iter().map(|(key, item)| (key.as_str().into(), of_yaml(item))).collect())
        }
    }
}

/// A value as YAML.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0, Place::Document);
    out.trim_end_matches('\n').to_owned()
}

/// Place in which a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Document,
    /// After `key:`.
    Member,
    /// After `- `.
    Element,
}

fn write(out: &mut String, value: &Value, depth: usize, place: Place) {
    match value.plain() {
        Value::List(list) if !list.items.is_empty() => {
            // Lists in maps are not indented.
            let depth = if place == Place::Member { depth.saturating_sub(1) } else { depth };
            begin(out, place, place == Place::Member);
            for (at, item) in list.items.iter().enumerate() {
                margin(out, depth, at == 0 && place == Place::Element);
                out.push_str("- ");
                write(out, item, depth + 1, Place::Element);
            }
        }
        Value::Map(map) if !map.items.is_empty() => {
            let members = map.items.iter().map(|(key, item)| (key.to_string(), item.clone())).collect();
            write_members(out, members, depth, place);
        }
        Value::Record(record) if !matches!(value, Value::Object(object) if object.printed().is_some()) => {
            let members = record.fields.iter().map(|(name, item)| (name.to_lowercase(), item.clone())).collect();
            write_members(out, members, depth, place);
        }
        plain => {
            begin(out, place, false);
            let printed = match value {
                Value::Object(object) => object.printed().map(Value::text),
                _ => None,
            };
            scalar(out, &printed.unwrap_or(plain), depth);
            out.push('\n');
        }
    }
}

fn write_members(out: &mut String, members: Vec<(String, Value)>, depth: usize, place: Place) {
    begin(out, place, place == Place::Member);
    for (at, (key, item)) in members.iter().enumerate() {
        margin(out, depth, at == 0 && place == Place::Element);
        scalar(out, &Value::text(key), depth);
        out.push(':');
        write(out, item, depth + 1, Place::Member);
    }
}

fn begin(out: &mut String, place: Place, on_lines: bool) {
    match (place, on_lines) {
        (Place::Member, true) => out.push('\n'),
        (Place::Member, false) => out.push(' '),
        (Place::Document | Place::Element, _) => {}
    }
}

fn margin(out: &mut String, depth: usize, is_inline: bool) {
    if !is_inline {
        out.extend(std::iter::repeat_n("  ", depth));
    }
}

fn scalar(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Missing | Value::Nil => out.push_str("null"),
        Value::List(_) => out.push_str("[]"),
        Value::Map(_) => out.push_str("{}"),
        Value::Float(number) => out.push_str(&shortest(*number, EXPONENT_FROM)),
        Value::Text(text)
            if text.contains('\n') && text.chars().all(|letter| letter == '\n' || !letter.is_control()) =>
        {
            block(out, text, depth);
        }
        Value::Text(text) => out.push_str(&quoted(text)),
        other => out.push_str(&plain(other)),
    }
}

/// A text of several lines.
fn block(out: &mut String, text: &str, depth: usize) {
    let body = text.strip_suffix('\n').unwrap_or(text);
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    if !text.ends_with('\n') {
        out.push('-');
    } else if body.ends_with('\n') || body.is_empty() {
        out.push('+');
    }
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n("  ", depth.max(1)));
            out.push_str(line);
        }
    }
}

/// A text of one line: plain where it reads as itself.
fn quoted(text: &str) -> String {
    let reads_as_other = !matches!(yaml_document(text), Ok(value::Value::Text(read)) if read == text);
    let first_bad = text.starts_with([
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', ' ',
    ]);
    let is_word =
        text.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '+' | '-' | ':' | '~'));
    if text.chars().any(char::is_control) || (reads_as_other && is_word && !text.is_empty()) || text.is_empty() {
        return literal::quoted(text);
    }
    let is_bad =
        first_bad || reads_as_other || text.contains(": ") || text.contains(" #") || text.ends_with([' ', ':']);
    if is_bad { format!("'{}'", text.replace('\'', "''")) } else { text.to_owned() }
}
