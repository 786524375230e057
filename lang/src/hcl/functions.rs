//! Functions in expressions: their declaration and lookup. The functions are in the files below, by subject.

mod collection;
mod date;
mod drawn;
mod encoding;
mod files;
mod format;
mod hash;
mod network;
mod number;
mod set;
mod text;
mod yaml;

use super::convert::{Type, convert};
use super::value::{Number, Value};

pub(crate) use drawn::Lots;

/// Error of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The argument with this number is wrong.
    Argument(usize, String),
    /// The call as a whole is wrong.
    Call(String),
}

/// Reads a YAML document; the error is the reason.
pub(crate) fn yaml_document(text: &str) -> Result<Value, String> {
    yaml::document(text)
}

/// Type that a parameter accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Text,
    Number,
    /// A list of texts.
    Texts,
    /// A list whose elements are converted to one type.
    List,
    /// A set of anything.
    Set,
    /// Any value except null; the function checks the type itself.
    Any,
    /// Any value, including null.
    Nullable,
}

impl Takes {
    fn wanted(self) -> Type {
        match self {
            Takes::Text => Type::Text,
            Takes::Number => Type::Number,
            Takes::Texts => Type::List(Box::new(Type::Text)),
            Takes::List => Type::List(Box::new(Type::Any)),
            Takes::Set => Type::Set(Box::new(Type::Any)),
            Takes::Any | Takes::Nullable => Type::Any,
        }
    }
}

/// A parameter: its name in error texts, and its type.
pub(crate) type Parameter = (&'static str, Takes);

type Called = Result<Value, Failure>;

/// A function.
pub(crate) struct Function {
    name: &'static str,
    parameters: &'static [Parameter],
    /// Parameter for all further arguments.
    rest: Option<Parameter>,
    run: Run,
}

enum Run {
    /// Returns the same result for the same arguments.
    Pure(fn(&[Value]) -> Called),
    /// Draws its result from the pseudo-random numbers.
    Drawn(fn(&[Value], &Lots) -> Called),
}

const fn plain(name: &'static str, parameters: &'static [Parameter], run: fn(&[Value]) -> Called) -> Function {
    Function { name, parameters, rest: None, run: Run::Pure(run) }
}

const fn variadic(
    name: &'static str,
    parameters: &'static [Parameter],
    rest: Parameter,
    run: fn(&[Value]) -> Called,
) -> Function {
    Function { name, parameters, rest: Some(rest), run: Run::Pure(run) }
}

const fn drawing(
    name: &'static str,
    parameters: &'static [Parameter],
    rest: Option<Parameter>,
    run: fn(&[Value], &Lots) -> Called,
) -> Function {
    Function { name, parameters, rest, run: Run::Drawn(run) }
}

impl Function {
    pub(crate) fn parameter_count(&self) -> usize {
        self.parameters.len()
    }

    pub(crate) fn is_variadic(&self) -> bool {
        self.rest.is_some()
    }

    /// The name of the first parameter without a value, given `count` arguments.
    pub(crate) fn missing_parameter(&self, count: usize) -> Option<&'static str> {
        self.parameters.get(count).map(|(name, _)| *name)
    }

    fn parameter(&self, at: usize) -> Option<Parameter> {
        self.parameters.get(at).copied().or(self.rest)
    }

    pub(crate) fn parameter_name(&self, at: usize) -> &'static str {
        self.parameter(at).map_or("", |(name, _)| name)
    }

    /// Converts an argument to the type of its parameter.
    pub(crate) fn accept(&self, at: usize, value: &Value) -> Result<Value, String> {
        let takes = self.parameter(at).map_or(Takes::Nullable, |(_, takes)| takes);
        match convert(value, &takes.wanted())? {
            Value::Null if takes != Takes::Nullable => Err("argument must not be null".to_string()),
            value => Ok(value),
        }
    }

    pub(crate) fn call(&self, arguments: &[Value], lots: &Lots) -> Called {
        match self.run {
            Run::Pure(run) => run(arguments),
            Run::Drawn(run) => run(arguments, lots),
        }
    }
}

/// All functions, by subject.
fn all() -> impl Iterator<Item = &'static Function> {
    [
        text::FUNCTIONS,
        format::FUNCTIONS,
        number::FUNCTIONS,
        collection::FUNCTIONS,
        set::FUNCTIONS,
        encoding::FUNCTIONS,
        yaml::FUNCTIONS,
        hash::FUNCTIONS,
        network::FUNCTIONS,
        date::FUNCTIONS,
        drawn::FUNCTIONS,
        files::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// The function of this name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name == name)
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|function| function.name)
}

// ---- reading arguments, which are already what their parameters take

fn text_of(given: &[Value], at: usize) -> &str {
    match given.get(at) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

fn number_of(given: &[Value], at: usize) -> Number {
    match given.get(at) {
        Some(Value::Number(number)) => *number,
        _ => Number::Integer(0),
    }
}

fn integer_of(given: &[Value], at: usize) -> Result<i64, Failure> {
    whole_of(given, at).map_err(|reason| Failure::Argument(at, reason))
}

/// Returns an integer argument, for functions with their own error text.
fn whole_of(given: &[Value], at: usize) -> Result<i64, String> {
    let whole = number_of(given, at).as_integer().and_then(|number| i64::try_from(number).ok());
    whole
        .ok_or_else(|| "value must be a whole number, between -9223372036854775808 and 9223372036854775807".to_string())
}

fn fail<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Call(reason.into()))
}
