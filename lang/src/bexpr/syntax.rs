//! Syntax tree of a filter expression.

use regex::Regex;

/// A node of the tree. Chains of `and` and `or` are flat: both are associative.
#[derive(Debug, Clone)]
pub(super) enum Expression {
    /// `a and b ..`: evaluation stops at the first false term.
    All(Vec<Expression>),
    /// `a or b ..`: evaluation stops at the first true term.
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Match {
        selector: Selector,
        matching: Matching,
        negated: bool,
    },
    /// `any` (otherwise `all`) of the elements of a collection.
    Each {
        any: bool,
        selector: Selector,
        binding: Binding,
        inner: Box<Expression>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) path: Vec<String>,
    /// The selector as error texts show it.
    pub(super) text: String,
}

/// An operator with its literal.
#[derive(Debug, Clone)]
pub(super) enum Matching {
    Equal(String),
    /// `in`, and `contains` with its sides swapped.
    In(String),
    Empty,
    Regexp(Pattern),
}

#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) text: String,
    /// A pattern that does not compile is an error of the first tested row, not of the filter.
    pub(super) compiled: Result<Regex, String>,
}

/// Names of the elements in the inner expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Binding {
    /// The element of a list, or the key of a map.
    One(String),
    /// Index and element of a list, or key and value of a map. `None` is written `_`.
    Two(Option<String>, Option<String>),
}

impl Binding {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Binding::One(name) => (Some(name), None),
            Binding::Two(first, second) => (first.as_ref(), second.as_ref()),
        };
        first.into_iter().chain(second).map(String::as_str)
    }
}
