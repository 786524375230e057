//! JSON request bodies, read with the manners of Go's `encoding/json`, down to the error texts.
//! Encoding answers is not here: `serde_json` does that.
//!
//! What differs from plain `serde_json`:
//! - member names of structs match in any letter case, the last of several wins but objects are merged, unknown ones are ignored;
//! - a `null` member counts as absent, so give wire structs `#[serde(default)]`; `null` elsewhere is the zero value;
//! - integers take integer literals only (`10.0` and `1e1` are errors);
//! - what follows the first document is ignored;
//! - errors name the struct, the field path and the Go type.
//!
//! A struct with `#[serde(flatten)]` is a map to serde, and then its names match exactly: write such
//! fields out instead.

mod de;
mod go_type;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

/// How deep arrays and objects may nest in a body.
pub const NESTING_DEPTH_MAX: usize = 256;

/// Why a body was refused; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing but white space.
    #[error("EOF")]
    Eof,
    /// The document ends in its middle.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// The text is not JSON.
    #[error("{0}")]
    Syntax(String),
    /// A value of the wrong kind.
    #[error("json: cannot unmarshal {value} into Go {} of type {go_type}", .place)]
    Type {
        /// What was found: `string`, `number 1.5`, ..
        value: String,
        /// Where it was found.
        place: Place,
        /// What was wanted, in Go's words.
        go_type: String,
    },
    /// A type's own refusal.
    #[error("{0}")]
    Custom(String),
}

/// Where in a document a value of the wrong kind stood.
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

/// What the wire calls Rust types, for error texts only.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Package of named types: `structs` or `api`.
    pub package: &'a str,
    /// Go type of the document itself, where it is not `package.RustName`.
    pub root: Option<&'a str>,
    /// Go types by `Struct.Field`, where the Rust type does not tell (`("ScalingRequest.Count", "int64")`).
    pub fields: &'a [(&'a str, &'a str)],
}

impl Default for Names<'_> {
    fn default() -> Self {
        Names { package: "structs", root: None, fields: &[] }
    }
}

/// One parsed JSON value. Numbers keep their literal: Go tells `10` from `10.0`.
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
    /// Go's word for the kind, as error texts have it.
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

/// Reads the first document of `body`; error texts use the default [`Names`].
pub fn from_slice<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Error> {
    from_slice_named(body, Names::default())
}

/// Reads the first document of `body`, with the given names in error texts.
pub fn from_slice_named<'de, T: Deserialize<'de>>(body: &'de [u8], names: Names<'_>) -> Result<T, Error> {
    let node = parse::document(body)?;
    de::read(node, names)
}

/// Reads an already parsed value in the same manner; error texts use the default [`Names`].
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
