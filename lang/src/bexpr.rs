//! The filter language of list requests (`JobID == "web" and Status != complete`): parse once, test many rows. API
//! handlers decide which lists take a filter, and turn errors into responses.
//!
//! A row is any serialisable value: the filter walks the row with a serializer of its own and copies nothing. Structs
//! and maps differ: an unknown struct field is an error, a missing map key is not.

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

/// A text that is not a filter; displays as `line:column (offset): ..`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column} ({offset}): {message}")]
pub struct SyntaxError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Offset in bytes, from 0.
    pub offset: usize,
    /// Expected tokens, or the mistake.
    pub message: String,
}

/// A filter could not be tested on a row; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A selector names a field that does not exist.
    #[error("error finding value in datum: {0}")]
    NotFound(String),
    /// The literal does not convert to the field's type.
    #[error("error getting match value in expression: {0}")]
    Literal(String),
    /// `==` on a value that is not a scalar.
    #[error("unable to find suitable primitive comparison function for matching")]
    NotComparable,
    /// `in`, `is empty`, `any` or `all` on a value of a kind that they do not apply to.
    #[error("Cannot perform {operation} operations on type {kind} for selector: {selector:?}")]
    WrongKind {
        /// The operators of the expression.
        operation: &'static str,
        /// The field's kind, as Go names it.
        kind: &'static str,
        /// The selector as written.
        selector: String,
    },
    /// `matches` on a value that is not a text.
    #[error("Value of type {0} is not convertible to []byte")]
    NotText(&'static str),
    /// `matches` with a regular expression that does not compile.
    #[error("Failed to compile regular expression {expression:?}: {reason}")]
    Regexp {
        /// The expression.
        expression: String,
        /// Reason of the compile error.
        reason: String,
    },
    /// The row could not be serialised.
    #[error("error reading the row: {0}")]
    Row(String),
}

/// A row whose plain fields can be read without building the whole row.
pub trait PlainFields {
    /// The whole row.
    type Whole: Serialize;

    /// The value of a field that is not a struct, list or map. `None`: use the whole row. The value must equal that of
    /// the whole row.
    fn plain(&self, field: &str) -> Option<Plain<'_>>;

    /// The whole row.
    fn whole(&self) -> &Self::Whole;

    /// A row whose value of this field equals that of the whole row; its other fields are ignored.
    fn whole_for(&self, _field: &str) -> &Self::Whole {
        self.whole()
    }
}

/// The value of a plain field.
#[derive(Debug, Clone, Copy)]
pub enum Plain<'a> {
    /// A text, or the word of an enum.
    Text(&'a str),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A boolean.
    Bool(bool),
}

impl Filter {
    /// Parses a filter expression.
    pub fn parse(text: &str) -> Result<Filter, SyntaxError> {
        Ok(Filter { root: parse::filter(text)? })
    }

    /// Whether `row` matches.
    pub fn matches<T: Serialize + ?Sized>(&self, row: &T) -> Result<bool, EvalError> {
        eval::test(&self.root, &row)
    }

    /// Whether `row` matches whatever the comparisons are that cannot be made on it: those of a field that it does not
    /// have, or whose kind or literal does not fit. The order of terms does not matter. `is empty` is true of a key
    /// that is missing from a map which the row has.
    pub fn matches_for_certain<T: Serialize + ?Sized>(&self, row: &T) -> bool {
        eval::test_known(&self.root, &row)
    }

    /// Whether a row with plain fields matches, without building the whole row: cheap enough for millions of rows.
    pub fn matches_fields<R: PlainFields>(&self, row: &R) -> Result<bool, EvalError> {
        eval::test(&self.root, &eval::Fields(row))
    }

    /// Whether a row matches that has further fields, of these names, in a second struct. `derived` is called only for
    /// filters that read one of them.
    pub fn matches_beside<T: Serialize, D: Serialize>(
        &self,
        row: &T,
        names: &[&str],
        derived: impl Fn() -> D,
    ) -> Result<bool, EvalError> {
        eval::test(&self.root, &eval::Beside { row, names, derived })
    }

    /// The first regular expression that does not compile, with the reason. Without this check the error appears only
    /// when a row is tested.
    #[must_use]
    pub fn bad_pattern(&self) -> Option<(&str, &str)> {
        bad_pattern(&self.root)
    }

    /// The paths in the row that the filter may read, in the order of the text.
    #[must_use]
    pub fn selectors(&self) -> Vec<&[String]> {
        let mut found = Vec::new();
        collect_selectors(&self.root, &mut Vec::new(), &mut found);
        found
    }
}

impl SyntaxError {
    /// An error at the first occurrence of `part` in `text`.
    #[must_use]
    pub fn at(text: &str, part: &str, message: String) -> Self {
        let offset = text.find(part).unwrap_or(0);
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            offset,
            message,
        }
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
