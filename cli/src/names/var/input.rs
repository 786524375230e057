//! Input of `var put`: a path with items, or a specification.

use std::collections::BTreeMap;

use serde_json::Value;
use songline_model::quote;

use crate::client::text;
use crate::exit::Failure;
use crate::input;

/// A variable to write.
#[derive(Debug, Default)]
pub(super) struct Spec {
    pub(super) path: String,
    /// Empty: that of the request.
    pub(super) namespace: String,
    pub(super) items: BTreeMap<String, String>,
    /// Index at which the variable must have been changed last.
    pub(super) index: Option<u64>,
}

impl Spec {
    /// The variable that the words of a command say. `format` is that of standard input.
    pub(super) fn of(words: &[String], format: &str) -> Result<Self, Failure> {
        let (first, rest) =
            words.split_first().ok_or_else(|| Failure::arguments("Not enough arguments (expected >1, got 0)"))?;
        let mut spec = if let Some(file) = first.strip_prefix('@') {
            Self::parsed(&file_text(file)?, format_of(file, format))?
        } else if first == "-" {
            Self::parsed(&input::read("-")?, format)?
        } else {
            Self { path: first.clone(), ..Self::default() }
        };
        for word in rest {
            // A specification behind a path gives its items to that path.
            if let Some(file) = word.strip_prefix('@') {
                let other = Self::parsed(&file_text(file)?, format_of(file, format))?;
                spec.items.extend(other.items);
                continue;
            }
            let (key, value) = pair(word)?;
            spec.items.insert(key, value);
        }
        if spec.items.is_empty() {
            return Err(Failure::new("Must supply data"));
        }
        Ok(spec)
    }

    fn parsed(source: &str, format: &str) -> Result<Self, Failure> {
        let document: Value = match format {
            "json" => serde_json::from_str(source).map_err(|error| unparsable(&error))?,
            "hcl" => input::hcl(source).map_err(|error| unparsable(&error))?,
            _ => return Err(Failure::new("Invalid value for \"-in\"; valid values are [hcl, json]")),
        };
        let member = |names: [&str; 2]| names.iter().find_map(|name| document.get(*name)).cloned().unwrap_or_default();
        let found = match member(["items", "Items"]) {
            Value::Array(blocks) => blocks.into_iter().next().unwrap_or_default(),
            other => other,
        };
        let items = found.as_object().into_iter().flatten();
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(Self {
            path: text(&member(["path", "Path"])).to_owned(),
            namespace: text(&member(["namespace", "Namespace"])).to_owned(),
            items: items.map(|(key, value)| (key.clone(), shown(value))).collect(),
            index: member(["modify_index", "ModifyIndex"]).as_u64(),
        })
    }
}

fn unparsable(error: &dyn std::fmt::Display) -> Failure {
    Failure::of("Failed to parse variable data", error)
}

/// Format of a file by its name, else the one that is asked for.
fn format_of<'f>(file: &str, asked: &'f str) -> &'f str {
    let ending = std::path::Path::new(file).extension().and_then(|ending| ending.to_str());
    match ending {
        Some("hcl") => "hcl",
        Some("json") => "json",
        _ => asked,
    }
}

fn file_text(file: &str) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(format!("Error reading {}: open {file}: no such file or directory", quote(file)))
        }
        _ => Failure::new(format!("Error reading {}: {error}", quote(file))),
    })
}

/// An item `key=value`, whose value may be `@FILE` or `-`.
fn pair(word: &str) -> Result<(String, String), Failure> {
    let Some((key, value)) = word.split_once('=') else {
        return Err(Failure::new(format!("Failed to parse K=V data: {} is not key=value", quote(word))));
    };
    let value = match value {
        "-" => input::read("-")?,
        _ => match value.strip_prefix('@') {
            Some(file) => file_text(file)?,
            None => value.to_owned(),
        },
    };
    Ok((key.to_owned(), value))
}
