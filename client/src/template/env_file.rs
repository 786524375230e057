//! Rendered files that set environment variables: `KEY=VALUE` lines, with comments, `export` and quotes.

use std::collections::BTreeMap;

/// Reads a file. The error has the line: `error on line 1: missing =`.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut vars = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = variable(line).map_err(|reason| format!("error on line {}: {reason}", at + 1))?;
        vars.insert(key, value);
    }
    Ok(vars)
}

fn variable(line: &str) -> Result<(String, String), String> {
    let (key, value) = line.split_once('=').ok_or("missing =")?;
    let key = key.trim();
    let key = key.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).unwrap_or(key).trim();
    let first = key.chars().next().ok_or("empty key")?;
    if !(first.is_ascii_alphabetic() || first == '_') {
        return Err(format!("key must start with [A-Za-z_] but found '{first}'"));
    }
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    if let Some(bad) = key.chars().find(|letter| !is_fine(*letter)) {
        return Err(format!("key characters must be [A-Za-z0-9_.] but found '{bad}'"));
    }
    Ok((key.to_owned(), read_value(value.trim())?))
}

fn read_value(text: &str) -> Result<String, String> {
    match text.chars().next() {
        Some('\'') => closed(text, '\''),
        Some('"') => closed(text, '"'),
        _ => {
            let end = text.find(" #").or_else(|| text.starts_with('#').then_some(0)).unwrap_or(text.len());
            Ok(text[..end].trim_end().to_owned())
        }
    }
}

/// A quoted value. Escapes are for double quotes only.
fn closed(text: &str, quote: char) -> Result<String, String> {
    let mut value = String::new();
    let mut letters = text.chars().skip(1);
    loop {
        match letters.next() {
            None => return Err(format!("unmatched {quote}")),
            Some(letter) if letter == quote => return Ok(value),
            Some('\\') if quote == '"' => match letters.next() {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some(other) => value.push(other),
                None => return Err(format!("unmatched {quote}")),
            },
            Some(other) => value.push(other),
        }
    }
}
