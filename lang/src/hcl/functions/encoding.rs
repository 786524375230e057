//! Functions to and from other notations: base64, CSV, JSON, URLs.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Called, Function, Parameter, Takes, fail, plain, text_of};
use crate::go_json;
use crate::hcl::value::{Value, of_json};
use crate::url;

const TEXT: &[Parameter] = &[("str", Takes::Text)];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("base64decode", TEXT, base64_decode),
    plain("base64encode", TEXT, |given| Ok(Value::Text(STANDARD.encode(text_of(given, 0))))),
    plain("csvdecode", TEXT, csv_decode),
    plain("jsondecode", TEXT, json_decode),
    plain("jsonencode", &[("val", Takes::Nullable)], |given| {
        let mut text = String::new();
        write_json(given.first().unwrap_or(&Value::Null), &mut text);
        Ok(Value::Text(text))
    }),
    plain("urlencode", TEXT, |given| Ok(Value::Text(url::query(text_of(given, 0).as_bytes())))),
];

fn base64_decode(given: &[Value]) -> Called {
    let text = text_of(given, 0);
    let Ok(bytes) = STANDARD.decode(text) else { return fail(format!("failed to decode base64 data '{text}'")) };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Value::Text(text)),
        Err(_) => fail("the result of decoding the the provided string is not valid UTF-8"),
    }
}

// ---- JSON

fn json_decode(given: &[Value]) -> Called {
    let text = text_of(given, 0);
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    match documents.next() {
        None => fail("EOF"),
        Some(Err(error)) if error.is_eof() => fail("EOF"),
        Some(Err(_)) => match go_json::value_from_slice(text.as_bytes()) {
            Err(error) => fail(error.to_string()),
            Ok(_) => fail("invalid JSON"),
        },
        Some(Ok(value)) => {
            if text[documents.byte_offset()..].trim().is_empty() {
                Ok(of_json(&value))
            } else {
                fail("extraneous data after JSON object")
            }
        }
    }
}

/// Writes JSON as Go does: no spaces, sorted names, escaped angle brackets and ampersands.
pub(super) fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Unknown => text.push_str("null"),
        Value::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::Text(inner) => write_json_text(inner, text),
        Value::Sequence(_, items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_json(item, text);
            }
            text.push(']');
        }
        Value::Mapping(_, members) => {
            text.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_json_text(name, text);
                text.push(':');
                write_json(member, text);
            }
            text.push('}');
        }
    }
}

fn write_json_text(inner: &str, text: &mut String) {
    let quoted = serde_json::Value::from(inner).to_string();
    for letter in quoted.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(letter))),
            other => text.push(other),
        }
    }
}

// ---- CSV

fn csv_decode(given: &[Value]) -> Called {
    let rows = match csv_rows(text_of(given, 0)) {
        Ok(rows) => rows,
        Err((line, reason)) => return fail(format!("CSV parse error on line {line}: {reason}")),
    };
    let Some((header, rows)) = rows.split_first() else { return fail("missing header line") };
    for (at, name) in header.1.iter().enumerate() {
        if header.1[..at].contains(name) {
            return fail(format!("duplicate column name {name:?}"));
        }
    }
    let mut objects = Vec::new();
    for (line, row) in rows {
        if row.len() != header.1.len() {
            return fail(format!("CSV parse error on line {line}: wrong number of fields"));
        }
        let members: BTreeMap<String, Value> = header.1.iter().cloned().zip(row.iter().map(Value::text)).collect();
        objects.push(Value::object(members));
    }
    Ok(Value::list(objects))
}

type Row = (usize, Vec<String>);

/// Rows with the numbers of the lines they begin on. Empty lines are skipped.
fn csv_rows(text: &str) -> Result<Vec<Row>, (usize, &'static str)> {
    let mut rows = Vec::new();
    let mut letters = text.chars().peekable();
    let mut line = 1;
    while letters.peek().is_some() {
        let start = line;
        let mut row = Vec::new();
        loop {
            let mut field = String::new();
            if letters.peek() == Some(&'"') {
                letters.next();
                loop {
                    match letters.next() {
                        Some('"') if letters.peek() == Some(&'"') => {
                            letters.next();
                            field.push('"');
                        }
                        Some('"') => break,
                        Some(letter) => {
                            line += usize::from(letter == '\n');
                            field.push(letter);
                        }
                        None => return Err((start, "extraneous or missing \" in quoted-field")),
                    }
                }
            } else {
                while let Some(letter) = letters.next_if(|letter| !matches!(letter, ',' | '\n')) {
                    field.push(letter);
                }
                if letters.peek() != Some(&',') && field.ends_with('\r') {
                    field.pop();
                }
            }
            row.push(field);
            match letters.next() {
                Some(',') => {}
                Some('\r') => {}
                Some('\n') | None => break,
                Some(_) => return Err((start, "extraneous or missing \" in quoted-field")),
            }
        }
        line += 1;
        if row != [String::new()] {
            rows.push((start, row));
        }
    }
    Ok(rows)
}
