//! The settings of a document one by one, with their lines: for reports about a file.

use serde_json::Value;

use super::{Error, json_of, value};
use crate::hcl1::{self, Item, Node, NodeKind};

/// One value of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Keys and labels from the outermost block inwards.
    pub path: Vec<String>,
    /// The value; an empty object for an empty block.
    pub value: Value,
    /// Line of the innermost key, from 1. JSON has none.
    pub line: Option<usize>,
}

/// Parses a document as [`super::parse`] does, into its settings in order.
///
/// # Errors
/// The text is neither HCL nor JSON.
pub fn settings(text: &str) -> Result<Vec<Setting>, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    if text.trim_start().starts_with('{') {
        of_json(&json_of(text)?, &mut Vec::new(), &mut found);
    } else {
        let items = hcl1::parse(text).map_err(|error| Error::Hcl(error.to_string()))?;
        of_items(&items, &mut Vec::new(), &mut found)?;
    }
    Ok(found)
}

fn of_items(items: &[Item], path: &mut Vec<String>, found: &mut Vec<Setting>) -> Result<(), Error> {
    for item in items {
        let depth = path.len();
        path.extend(item.keys.iter().cloned());
        of_node(&item.value, item.places.last().map(|place| place.line), path, found)?;
        path.truncate(depth);
    }
    Ok(())
}

fn of_node(node: &Node, line: Option<usize>, path: &mut Vec<String>, found: &mut Vec<Setting>) -> Result<(), Error> {
    match &node.kind {
        NodeKind::Object(items) if !items.is_empty() => of_items(items, path, found),
        NodeKind::List(nodes) if !nodes.is_empty() && nodes.iter().all(is_block) => {
            nodes.iter().try_for_each(|node| of_node(node, line, path, found))
        }
        _ => {
            found.push(Setting { path: path.clone(), value: value(node)?, line });
            Ok(())
        }
    }
}

fn is_block(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Object(_))
}

fn of_json(value: &Value, path: &mut Vec<String>, found: &mut Vec<Setting>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                path.push(key.clone());
                of_json(value, path, found);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_object) => {
            items.iter().for_each(|item| of_json(item, path, found));
        }
        _ => found.push(Setting { path: path.clone(), value: value.clone(), line: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let settings = settings(text).expect("it is a document");
        settings.iter().map(|one| format!("{:?} {} {}", one.line, one.path.join("."), one.value)).collect()
    }

    #[test]
    fn settings_have_their_paths_and_lines() {
        let text = "region = \"eu\"\n\nserver {\n  enabled = true\n  server_join {\n    retry_join = [\"a\", \"b\"]\n  }\n}\n\
                    plugin \"docker\" {\n  config {}\n}\n";
        assert_eq!(
            shown(text),
            [
                "Some(1) region \"eu\"",
                "Some(4) server.enabled true",
                "Some(6) server.server_join.retry_join [\"a\",\"b\"]",
                "Some(10) plugin.docker.config {}",
            ]
        );
        let json = r#"{"client": [{"enabled": true}, {"meta": {"a": "1"}}], "ports": {}}"#;
        assert_eq!(shown(json), ["None client.enabled true", "None client.meta.a \"1\"", "None ports {}"]);
        assert!(settings("server {").is_err());
    }
}
