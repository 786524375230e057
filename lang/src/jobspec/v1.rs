//! Job files in HCL 1: no variables, no expressions, weak conversions, and errors that name the path to the block.
//! Only the language differs: the blocks are those of `schema.rs`, as for HCL 2.

mod special;
mod weak;

use serde_json::{Value as Json, json};

use super::Object;
use super::decode::list_or_null;
use super::schema::{Field, JOB, Kind, Schema};
use crate::hcl1::{self, Item, Node, NodeKind};

/// A job was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    One(String),
    /// Unknown keys, reported together.
    Many(Vec<String>),
}

impl Refusal {
    /// Adds an outer block to the path in the error.
    fn within(self, place: &str) -> Refusal {
        match self {
            Refusal::One(text) => Refusal::One(format!("{place}{text}")),
            Refusal::Many(texts) => Refusal::Many(texts.into_iter().map(|text| format!("{place}{text}")).collect()),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::One(text) => f.write_str(text),
            Refusal::Many(texts) => {
                let plural = if texts.len() == 1 { "" } else { "s" };
                write!(f, "{} error{plural} occurred:", texts.len())?;
                for text in texts {
                    write!(f, "\n\t* {text}")?;
                }
                f.write_str("\n\n")
            }
        }
    }
}

type Decoded<T> = Result<T, Refusal>;

fn refuse<T>(text: impl Into<String>) -> Decoded<T> {
    Err(Refusal::One(text.into()))
}

/// Decodes a job file; the error is the whole text of the response.
pub(super) fn parse(source: &str) -> Result<Object, String> {
    let items = hcl1::parse_either(source).map_err(|error| format!("error parsing: {error}"))?;
    check_keys(&items, &["job"], "").map_err(|refusal| refusal.to_string())?;
    if items.is_empty() {
        return Err("'job' block not found".to_string());
    }
    job(&items).map_err(|refusal| format!("error parsing 'job': {refusal}"))
}

fn job(items: &[Item]) -> Decoded<Object> {
    let [item] = items else { return refuse("only one 'job' block allowed") };
    let (Some(label), NodeKind::Object(members)) = (item.keys.get(1), &item.value.kind) else {
        return refuse("'job' block missing name");
    };
    let place = Place { block: "job", label, service: "" };
    let mut job = object(&JOB, members, &place)?;
    super::special::finish(&mut job, label);
    Ok(job)
}

/// The block being decoded, for error texts.
#[derive(Clone, Copy)]
struct Place<'a> {
    block: &'a str,
    label: &'a str,
    /// Name of the enclosing service.
    service: &'a str,
}

impl Place<'_> {
    /// Prefix of errors about unknown keys of this block.
    fn of_keys(&self) -> String {
        match self.block {
            "job" => "job: ".to_string(),
            "group" => format!("'{}' -> ", self.label),
            "resources" | "vault" | "identity" => format!("{} -> ", self.block),
            _ => String::new(),
        }
    }

    /// Prefix of errors in a block inside this one.
    fn of_inner(&self, block: &str, label: &str, number: usize) -> String {
        match (self.block, block) {
            ("job", "group") => "group: ".to_string(),
            ("job", _) => format!("{block} -> "),
            ("group", "task") => format!("'{}', task: '{label}', ", self.label),
            ("group", "service") => format!("'{}', service ({number}): ", self.label),
            ("task", "service") => format!("service ({number}): "),
            ("group", "network" | "update" | "scaling") => format!("{block} -> "),
            ("group", _) => format!("'{}', {block} -> ", self.label),
            ("service", "check" | "connect") => format!("'{}', {block} -> ", self.service),
            ("network", "port") => "ports -> ".to_string(),
            ("resources", "device") => format!("resources, device[{number}]-> "),
            _ => format!("{block} -> "),
        }
    }
}

/// Refuses unknown keys.
fn check_keys(items: &[Item], known: &[&str], place: &str) -> Decoded<()> {
    let unknown: Vec<String> = items
        .iter()
        .filter_map(|item| item.keys.first())
        .filter(|key| !known.contains(&key.as_str()))
        .map(|key| format!("{place}invalid key: {key}"))
        .collect();
    if unknown.is_empty() { Ok(()) } else { Err(Refusal::Many(unknown)) }
}

/// Decodes all fields of the schema. Volumes and plugins ignore unknown keys.
fn object(schema: &Schema, items: &[Item], place: &Place<'_>) -> Decoded<Object> {
    if !matches!(place.block, "volume" | "csi_plugin") {
        let mut known: Vec<&str> = schema.attribute_names();
        known.extend(schema.block_kinds().into_iter().map(|(kind, _)| kind));
        if place.block == "target" {
            // Only the older language has it beside the label, which it replaces.
            known.push("value");
        }
        check_keys(items, &known, &place.of_keys())?;
    }
    special::check_repeats(items, place)?;
    let mut object = Object::new();
    attributes(schema, items, place, &mut object)?;
    let name = object.get("Name").and_then(Json::as_str).unwrap_or_default().to_string();
    let place = Place { service: if place.block == "service" { &name } else { place.service }, ..*place };
    for field in schema.fields {
        self::field(field, items, &place, &mut object)?;
    }
    special::after(place.block, items, &mut object)?;
    Ok(object)
}

/// Decodes attributes before blocks, so that errors in attributes are reported first.
fn attributes(schema: &Schema, items: &[Item], place: &Place<'_>, object: &mut Object) -> Decoded<()> {
    let mut wrong = Vec::new();
    for field in schema.fields {
        match field {
            Field::Attribute { name, key, kind, absent, .. } => {
                let shown = if name.contains('_') { name } else { key };
                let given = items.iter().rfind(|item| item.keys.first().is_some_and(|first| first == name));
                let json = match given.map(|item| weak::convert(&item.value, *kind, shown)) {
                    Some(Ok(json)) => json,
                    Some(Err(reason)) => {
                        wrong.push(reason);
                        continue;
                    }
                    None => absent.json(),
                };
                object.insert((*key).to_string(), json);
            }
            Field::Label { key } => {
                object.insert((*key).to_string(), json!(place.label));
            }
            Field::Fixed { key, value } => {
                object.insert((*key).to_string(), value.json());
            }
            Field::Strings { .. }
            | Field::StringLists { .. }
            | Field::Free { .. }
            | Field::Block { .. }
            | Field::Blocks { .. }
            | Field::Keyed { .. }
            | Field::Special { .. }
            | Field::After { .. } => {}
        }
    }
    if let (true, [first, ..]) = (place.block == "periodic", wrong.as_slice())
        && let Some(reason) = first.split_once("bool: ").map(|(_, reason)| reason)
    {
        return refuse(format!("periodic.enabled should be set to true or false; {reason}"));
    }
    if wrong.is_empty() { Ok(()) } else { refuse(decoding(&wrong)) }
}

fn decoding(reasons: &[String]) -> String {
    let lines: Vec<String> = reasons.iter().map(|reason| format!("* {reason}")).collect();
    format!("{} error(s) decoding:\n\n{}", reasons.len(), lines.join("\n"))
}

/// The blocks of one kind with their labels; lists of objects count as blocks.
fn blocks<'i>(items: &'i [Item], name: &str) -> Vec<(&'i str, &'i Node)> {
    let mut found = Vec::new();
    for item in items.iter().filter(|item| item.keys.first().is_some_and(|first| first == name)) {
        let label = item.keys.get(1).map_or("", String::as_str);
        match &item.value.kind {
            NodeKind::List(nodes) => found.extend(nodes.iter().map(|node| (label, node))),
            _ => found.push((label, &item.value)),
        }
    }
    found
}

fn members(node: &Node) -> Decoded<&[Item]> {
    match &node.kind {
        NodeKind::Object(items) => Ok(items),
        _ => refuse("should be an object"),
    }
}

fn field(field: &Field, items: &[Item], place: &Place<'_>, object: &mut Object) -> Decoded<()> {
    let inner = |schema: &Schema, name: &str, label: &str, node: &Node, number: usize| -> Decoded<Json> {
        let way = place.of_inner(name, label, number);
        let inside = Place { block: name, label, service: place.service };
        let decoded = members(node).and_then(|items| self::object(schema, items, &inside));
        decoded.map(Json::Object).map_err(|refusal| special::way_of(refusal, name, &way))
    };
    match field {
        Field::Strings { name, key, .. } => {
            object.insert((*key).to_string(), entries(items, name, text_entry)?);
        }
        Field::StringLists { name, key } => {
            object.insert((*key).to_string(), entries(items, name, |entry, node| list_entry(name, entry, node))?);
        }
        Field::Free { name, key } => {
            object.insert((*key).to_string(), free(items, name)?);
        }
        Field::Block { name, key, schema } => {
            let json = match blocks(items, name).last() {
                Some((label, node)) => inner(schema, name, label, node, 0)?,
                None => Json::Null,
            };
            object.insert((*key).to_string(), json);
        }
        Field::Blocks { name, key, schema } => {
            let mut list = Vec::new();
            for (number, (label, node)) in blocks(items, name).into_iter().enumerate() {
                list.push(inner(schema, name, label, node, number)?);
            }
            object.insert((*key).to_string(), list_or_null(list));
        }
        Field::Keyed { name, key, schema } => {
            let mut entries = Object::new();
            for (label, node) in blocks(items, name) {
                entries.insert(label.to_string(), inner(schema, name, label, node, 0)?);
            }
            object.insert((*key).to_string(), if entries.is_empty() { Json::Null } else { Json::Object(entries) });
        }
        Field::Special { name, .. } => special::block(name, items, place, object)?,
        Field::Attribute { .. } | Field::Label { .. } | Field::Fixed { .. } | Field::After { .. } => {}
    }
    Ok(())
}

/// The members of all blocks of one kind, or null if there is no block.
fn entries(items: &[Item], name: &str, decode: impl Fn(&str, &Node) -> Decoded<Json>) -> Decoded<Json> {
    let found = blocks(items, name);
    let mut all = Object::new();
    for (_, node) in &found {
        for item in members(node)? {
            let Some(entry) = item.keys.first() else { continue };
            all.insert(entry.clone(), decode(entry, &item.value)?);
        }
    }
    Ok(if found.is_empty() { Json::Null } else { Json::Object(all) })
}

fn text_entry(entry: &str, node: &Node) -> Decoded<Json> {
    weak::convert(node, Kind::Text, &format!("[{entry}]")).map_err(|reason| Refusal::One(decoding(&[reason])))
}

fn list_entry(block: &str, entry: &str, node: &Node) -> Decoded<Json> {
    if !matches!(node.kind, NodeKind::List(_)) {
        return refuse(format!("{block} -> {entry:?} expected a []string but found {}", weak::go_kind(node)));
    }
    weak::convert(node, Kind::Texts, entry).map_err(|reason| Refusal::One(decoding(&[reason])))
}

/// The members of all free-form blocks of one kind, or null if there is no block.
fn free(items: &[Item], name: &str) -> Decoded<Json> {
    let found = blocks(items, name);
    let mut all = Object::new();
    for (_, node) in &found {
        let NodeKind::Object(items) = &node.kind else {
            let (line, column) = (node.place.line, node.place.column);
            return refuse(format!("At {line}:{column}: root: not an object type for map (*ast.LiteralType)"));
        };
        all.extend(weak::free(items));
    }
    Ok(if found.is_empty() { Json::Null } else { Json::Object(all) })
}
