//! Values as TOML.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::template::format::plain;
use crate::template::{Map, Value, literal};

/// A map as TOML.
pub(super) fn text(value: &Value) -> Result<String, String> {
    let Value::Map(map) = value.plain() else {
        return Err("toTOML: top-level values must be Go maps or structs".to_owned());
    };
    let mut out = String::new();
    table(&mut out, &map, &[])?;
    Ok(out.trim().to_owned())
}

fn tables(value: &Value) -> Option<Vec<Arc<Map>>> {
    let list = value.items().filter(|list| !list.items.is_empty())?;
    let maps = list.items.iter().map(|item| match item.plain() {
        Value::Map(map) => Some(map),
        _ => None,
    });
    maps.collect()
}

/// Writes a table: its plain values first, then the tables in it.
fn table(out: &mut String, map: &Map, path: &[String]) -> Result<(), String> {
    let margin = "  ".repeat(path.len().saturating_sub(1));
    let own = if path.is_empty() { String::new() } else { format!("{margin}  ") };
    for (name, value) in &map.items {
        match value.plain() {
            Value::Map(_) | Value::Missing | Value::Nil => {}
            value if tables(&value).is_some() => {}
            value => {
                // Writing to a text cannot fail.
                let _ = writeln!(out, "{own}{} = {}", key(name), inline(&value)?);
            }
        }
    }
    for (name, value) in &map.items {
        let mut path = path.to_vec();
        path.push(key(name));
        let margin = "  ".repeat(path.len() - 1);
        if let Value::Map(map) = value.plain() {
            let _ = writeln!(out, "\n{margin}[{}]", path.join("."));
            table(out, &map, &path)?;
        }
        for map in tables(value).into_iter().flatten() {
            let _ = writeln!(out, "\n{margin}[[{}]]", path.join("."));
            table(out, &map, &path)?;
        }
    }
    Ok(())
}

fn key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'));
    if is_bare { name.to_owned() } else { literal::quoted(name) }
}

fn inline(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(literal::quoted(text)),
        Value::Float(number) if number.is_finite() => {
            let text = number.to_string();
            Ok(if text.contains('.') { text } else { format!("{text}.0") })
        }
        Value::List(list) => {
            let items: Result<Vec<String>, String> = list.items.iter().map(|item| inline(&item.plain())).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) => {
            let item = |(name, item): (&Arc<str>, &Value)| Ok(format!("{} = {}", key(name), inline(&item.plain())?));
            let items: Result<Vec<String>, String> = map.items.iter().map(item).collect();
            Ok(format!("{{{}}}", items?.join(", ")))
        }
        Value::Missing | Value::Nil => Err("toTOML: array contains nil".to_owned()),
        other => Ok(plain(other)),
    }
}
