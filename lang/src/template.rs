//! Templates in the language of Go's `text/template`: parsed once, rendered with values and functions from outside.
//!
//! The language itself is in this folder's other files. [`consul`] has the functions that templates of jobs may use;
//! another caller may bring its own [`Library`]. Nothing here opens a file or asks a server. Error texts are those of
//! Go 1.21, because users search for them.

mod bounds;
mod builtin;
pub mod consul;

mod exec;
mod format;
mod lex;
mod literal;
mod node;
mod parse;
#[cfg(test)]
mod tests;

mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use bounds::Bounds;
pub use value::{List, Map, Object, Record, Value, bytes_of_text, text_of_bytes};

/// How a template is read and rendered.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Opening mark of an action; empty is `{{`.
    pub left: String,
    /// Closing mark of an action; empty is `}}`.
    pub right: String,
    /// Result of looking a key up in a map that does not have it.
    pub missing_key: MissingKey,
}

/// Result of looking a key up in a map that does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingKey {
    /// No value, printed as `<no value>`.
    #[default]
    Invalid,
    /// The zero value of the map's elements.
    Zero,
    /// The rendering fails.
    Error,
}

/// Reasons why a template has no output; display as Go's text, which begins with `template: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is no template.
    #[error("{0}")]
    Parse(String),
    /// The template could not be rendered.
    #[error("{0}")]
    Execute(String),
}

/// Type of a function's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Any value.
    Any,
    /// A boolean.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A floating-point number.
    Float,
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// A list of anything.
    List,
    /// A map from texts to anything.
    Map,
}

/// Parameters of a function.
#[derive(Debug, Clone, Copy)]
pub struct Signature {
    /// Parameters that must be given.
    pub params: &'static [Type],
    /// Type of any number of further parameters.
    pub rest: Option<Type>,
}

/// Result of a function.
#[derive(Debug)]
pub enum Called {
    /// A value.
    Value(Value),
    /// A changed copy of a map that the function was given. Variables that hold the map hold the copy from now on, as
    /// in Go, where the function changes the map itself.
    Changed {
        /// The given map.
        was: Arc<Map>,
        /// The copy, which is also the function's result.
        now: Value,
    },
    /// The output of another template of the same text.
    Template {
        /// Its name.
        name: String,
        /// Its dot.
        dot: Value,
    },
}

/// Functions of templates beside the language's own.
pub trait Library {
    /// Parameters of a function; `None` if there is no such function.
    fn signature(&self, name: &str) -> Option<Signature>;

    /// Calls a function. Arguments fit its signature.
    ///
    /// # Errors
    /// The text that follows `error calling NAME: `.
    fn call(&self, name: &str, args: &[Value]) -> Result<Called, String>;
}

/// No functions beside the language's own.
#[derive(Debug, Clone, Copy)]
pub struct NoLibrary;

impl Library for NoLibrary {
    fn signature(&self, _: &str) -> Option<Signature> {
        None
    }

    fn call(&self, name: &str, _: &[Value]) -> Result<Called, String> {
        Err(format!("{name:?} is not a defined function"))
    }
}

/// A parsed template with all templates that its text defines.
#[derive(Debug, Clone)]
pub struct Template {
    name: String,
    text: String,
    missing_key: MissingKey,
    bodies: BTreeMap<String, Vec<node::Node>>,
}

impl Template {
    /// Parses a template. `library` decides which functions exist.
    ///
    /// # Errors
    /// [`TemplateError::Parse`]: the first mistake, with its line.
    pub fn parse(name: &str, text: &str, options: &Options, library: &dyn Library) -> Result<Self, TemplateError> {
        let bodies = parse::parse(name, text, options, library).map_err(TemplateError::Parse)?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), missing_key: options.missing_key, bodies })
    }

    /// Renders the template with `dot` as its data.
    ///
    /// # Errors
    /// [`TemplateError::Execute`]: the first failure with its place, also of a bound.
    pub fn render(&self, dot: Value, library: &dyn Library, bounds: Bounds) -> Result<Vec<u8>, TemplateError> {
        exec::render(self, dot, library, bounds).map(|text| bytes_of_text(&text)).map_err(TemplateError::Execute)
    }
}
