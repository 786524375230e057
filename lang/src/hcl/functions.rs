//! The functions that expressions can call: how they are declared and found.
//! What each of them does is in the files beside this one, by subject.

mod files;
mod text;

use super::convert::{Type, convert};
use super::value::Value;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The argument of this number is wrong.
    Argument(usize, String),
    /// The call as a whole.
    Call(String),
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Text,
    /// Any value; the function looks for itself.
    Any,
}

impl Takes {
    fn wanted(self) -> Type {
        match self {
            Takes::Text => Type::Text,
            Takes::Any => Type::Any,
        }
    }
}

/// A parameter: its name for error texts, and what it takes.
pub(crate) type Parameter = (&'static str, Takes);

/// A function.
pub(crate) struct Function {
    name: &'static str,
    parameters: &'static [Parameter],
    /// The parameter that takes all further arguments.
    rest: Option<Parameter>,
    run: fn(&[Value]) -> Result<Value, Failure>,
}

impl Function {
    pub(crate) fn parameter_count(&self) -> usize {
        self.parameters.len()
    }

    pub(crate) fn is_variadic(&self) -> bool {
        self.rest.is_some()
    }

    /// The first parameter that `count` arguments leave without a value.
    pub(crate) fn missing_parameter(&self, count: usize) -> Option<&'static str> {
        self.parameters.get(count).map(|(name, _)| *name)
    }

    fn parameter(&self, at: usize) -> Option<Parameter> {
        self.parameters.get(at).copied().or(self.rest)
    }

    pub(crate) fn parameter_name(&self, at: usize) -> &'static str {
        self.parameter(at).map_or("", |(name, _)| name)
    }

    /// The argument as the parameter takes it.
    pub(crate) fn accept(&self, at: usize, value: &Value) -> Result<Value, String> {
        let takes = self.parameter(at).map_or(Takes::Any, |(_, takes)| takes);
        match convert(value, &takes.wanted())? {
            Value::Null => Err("argument must not be null".to_string()),
            value => Ok(value),
        }
    }

    pub(crate) fn call(&self, arguments: &[Value]) -> Result<Value, Failure> {
        (self.run)(arguments)
    }
}

/// All functions, by subject.
fn all() -> impl Iterator<Item = &'static Function> {
    [files::FUNCTIONS, text::FUNCTIONS].into_iter().flatten()
}

/// The function of this name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name == name)
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|function| function.name)
}
