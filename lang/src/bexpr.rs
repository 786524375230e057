//! The filter language of lists (`JobID == "web" and Status != complete`): parse once, test many rows.
//! Which lists take a filter, and how an error becomes an answer, is not here.
//!
//! A row is anything that serialises: the filter walks it with a serializer of its own, so a row is never
//! copied. Structs and maps differ: an unknown struct field is an error, a missing map key is not.

mod demand;
mod eval;
mod parse;
mod same;
mod syntax;
#[cfg(test)]
mod tests;
mod walk;

use serde::Serialize;

pub use demand::PlainNames;
use syntax::{Expression, Matching};

/// A parsed filter expression.
#[derive(Debug, Clone)]
pub struct Filter {
    root: Expression,
}

/// Why a text is no filter; displays as `line:column (offset): ..`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column} ({offset}): {message}")]
pub struct SyntaxError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// Counted from 0, in bytes.
    pub offset: usize,
    /// What was expected, or what is wrong.
    pub message: String,
}

/// Why a filter could not be tested on a row; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A selector leads nowhere.
    #[error("error finding value in datum: {0}")]
    NotFound(String),
    /// The literal is not of the field's type.
    #[error("error getting match value in expression: {0}")]
    Literal(String),
    /// `==` on something that is not a scalar.
    #[error("unable to find suitable primitive comparison function for matching")]
    NotComparable,
    /// `in` on something that holds nothing.
    #[error("Cannot perform {operation} operations on type {kind} for selector: {selector:?}")]
    WrongKind {
        /// The operators in question.
        operation: &'static str,
        /// The field's kind, in Go's words.
        kind: &'static str,
        /// The selector as written.
        selector: String,
    },
    /// `matches` on something that is not text.
    #[error("Value of type {0} is not convertible to []byte")]
    NotText(&'static str),
    /// `matches` with an expression that does not compile.
    #[error("Failed to compile regular expression {expression:?}: {reason}")]
    Regexp {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The row itself refused to be read.
    #[error("error reading the row: {0}")]
    Row(String),
}

/// A row whose plain fields can be read without making the whole of it.
pub trait PlainFields {
    /// The whole row.
    type Whole: Serialize;

    /// A field that is no struct, list or map. `None`: the whole row has to be asked. What it says must be what the whole row says.
    fn plain(&self, field: &str) -> Option<Plain<'_>>;

    /// The whole row.
    fn whole(&self) -> &Self::Whole;

    /// A row that has this field as the whole row has it; what else it has does not count.
    fn whole_for(&self, _field: &str) -> &Self::Whole {
        self.whole()
    }
}

/// The value of a plain field.
#[derive(Debug, Clone, Copy)]
pub enum Plain<'a> {
    /// A text, or the word of an enum.
    Text(&'a str),
    /// A number that may be negative.
    Signed(i64),
    /// A number that may not.
    Unsigned(u64),
    /// A truth.
    Bool(bool),
}

impl Filter {
    /// Parses a filter expression.
    pub fn parse(text: &str) -> Result<Filter, SyntaxError> {
        Ok(Filter { root: parse::filter(text)? })
    }

    /// Whether `row` passes.
    pub fn matches<T: Serialize + ?Sized>(&self, row: &T) -> Result<bool, EvalError> {
        eval::test(&self.root, &row)
    }

    /// The same for a row of which plain fields can be had without the whole of it: cheap enough for millions.
    pub fn matches_fields<R: PlainFields>(&self, row: &R) -> Result<bool, EvalError> {
        eval::test(&self.root, &eval::Fields(row))
    }

    /// The first regular expression that does not compile, and why: testing a row would only tell when it is come to.
    #[must_use]
    pub fn bad_pattern(&self) -> Option<(&str, &str)> {
        bad_pattern(&self.root)
    }

    /// The paths of the row that the filter may look at, in the order of the text.
    #[must_use]
    pub fn selectors(&self) -> Vec<&[String]> {
        let mut found = Vec::new();
        collect_selectors(&self.root, &mut Vec::new(), &mut found);
        found
    }
}

impl SyntaxError {
    /// An error at the first place of `text` where `part` stands.
    #[must_use]
    pub fn at(text: &str, part: &str, message: String) -> Self {
        let offset = text.find(part).unwrap_or(0);
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1, offset, message }
    }
}

fn bad_pattern(expression: &Expression) -> Option<(&str, &str)> {
    match expression {
        Expression::All(parts) | Expression::Any(parts) => parts.iter().find_map(bad_pattern),
        Expression::Not(inner) => bad_pattern(inner),
        Expression::Each { inner, .. } => bad_pattern(inner),
        Expression::Match { matching: Matching::Regexp(pattern), .. } => {
            pattern.compiled.as_ref().err().map(|reason| (pattern.text.as_str(), reason.as_str()))
        }
        Expression::Match { matching: Matching::Equal(_) | Matching::In(_) | Matching::Empty, .. } => None,
    }
}

fn collect_selectors<'a>(expression: &'a Expression, bound: &mut Vec<&'a str>, found: &mut Vec<&'a [String]>) {
    let mut add = |path: &'a [String], bound: &[&str]| {
        if path.first().is_none_or(|root| !bound.contains(&root.as_str())) {
            found.push(path);
        }
    };
    match expression {
        Expression::All(parts) | Expression::Any(parts) => {
            for part in parts {
                collect_selectors(part, bound, found);
            }
        }
        Expression::Not(inner) => collect_selectors(inner, bound, found),
        Expression::Match { selector, .. } => add(&selector.path, bound),
        Expression::Each { selector, binding, inner, .. } => {
            add(&selector.path, bound);
            let before = bound.len();
            bound.extend(binding.names());
            collect_selectors(inner, bound, found);
            bound.truncate(before);
        }
    }
}
