//! JSON request bodies, decoded like Go's `encoding/json`, down to the error texts. Responses are encoded with
//! `serde_json`.
//!
//! Differences from plain `serde_json`:
//! - member names of structs match in any letter case; of duplicates the last one wins, except that objects are merged;
//!   unknown members are ignored;
//! - a `null` member counts as absent, so give wire structs `#[serde(default)]`; `null` elsewhere is the zero value;
//! - integers take integer literals only (`10.0` and `1e1` are errors);
//! - text after the first document is ignored;
//! - errors name the struct, the field path and the Go type.
//!
//! A struct with `#[serde(flatten)]` is a map to serde, so its names match exactly: write such fields out instead.

mod de;
mod go_type;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

/// Deepest nesting of arrays and objects in a body.
pub const NESTING_DEPTH_MAX: usize = 256;

/// A body was refused; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is empty or white space.
    #[error("EOF")]
    Eof,
    /// The document is incomplete.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// The text is not JSON.
    #[error("{0}")]
    Syntax(String),
    /// A value of the wrong kind.
    #[error("json: cannot unmarshal {value} into Go {} of type {go_type}", .place)]
    Type {
        /// The value found: `string`, `number 1.5`, ..
        value: String,
        /// Position of the value.
        place: Place,
        /// The expected type, as Go names it.
        go_type: String,
    },
    /// Error of a type's own `Deserialize`.
    #[error("{0}")]
    Custom(String),
}

/// Position of a value of the wrong kind in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The innermost struct, by its Go name.
    structure: Option<String>,
    /// Field names from the root.
    path: Vec<String>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.structure {
            None => f.write_str("value"),
            Some(name) => write!(f, "struct field {name}.{}", self.path.join(".")),
        }
    }
}

/// Go names of Rust types, for error texts only.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Package of named types: `structs` or `api`.
    pub package: &'a str,
    /// Go type of the document itself, if it is not `package.RustName`.
    pub root: Option<&'a str>,
    /// Go types by `Struct.Field`, if the Rust type does not determine them (`("ScalingRequest.Count", "int64")`).
    pub fields: &'a [(&'a str, &'a str)],
}

impl Default for Names<'_> {
    fn default() -> Self {
        Names { package: "structs", root: None, fields: &[] }
    }
}

/// One parsed JSON value. Numbers keep their literal: Go distinguishes `10` from `10.0`.
#[derive(Debug, Clone, PartialEq)]
enum Node<'a> {
    Null,
    Bool(bool),
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl Node<'_> {
    /// The kind, as Go's error texts name it.
    fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "bool",
            Node::Number(_) => "number",
            Node::Text(_) => "string",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
    }
}

/// Decodes the first document of `body`; error texts use the default [`Names`].
pub fn from_slice<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Error> {
    from_slice_named(body, Names::default())
}

/// Decodes the first document of `body`, with the given names in error texts.
pub fn from_slice_named<'de, T: Deserialize<'de>>(body: &'de [u8], names: Names<'_>) -> Result<T, Error> {
    let node = parse::document(body)?;
    de::read(node, names)
}

/// Decodes an already parsed value by the same rules; error texts use the default [`Names`].
pub fn from_value<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<T, Error> {
    de::read(node_of(value), Names::default())
}

/// Parses the first document of `body` to a plain value, for members of any shape.
pub fn value_from_slice(body: &[u8]) -> Result<Value, Error> {
    from_slice(body)
}

fn node_of(value: &Value) -> Node<'_> {
    match value {
        Value::Null => Node::Null,
        Value::Bool(truth) => Node::Bool(*truth),
        Value::Number(number) => Node::Number(Cow::Owned(number.to_string())),
        Value::String(text) => Node::Text(Cow::Borrowed(text)),
        Value::Array(items) => Node::Array(items.iter().map(node_of).collect()),
        Value::Object(members) => {
            Node::Object(members.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), node_of(value))).collect())
        }
    }
}
