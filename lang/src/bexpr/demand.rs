//! What a filter demands of every row that passes: equalities that an index can answer. Which indexes there are is the caller's business.
//!
//! An index must not hide an error that a test of row by row would have met: only what is tested before anything that can fail counts.

use super::Filter;
use super::eval;
use super::syntax::{Expression, Matching};

/// Fields of a row that are neither struct nor list nor map.
#[derive(Debug, Clone, Copy)]
pub struct PlainNames<'a> {
    /// Texts, or left out when empty.
    pub texts: &'a [&'a str],
    /// Integers, or left out when zero.
    pub integers: &'a [&'a str],
}

impl Filter {
    /// Fields and the texts that they must equal for any row to pass. A row that has another text is tested without an error, so rows
    /// that an index leaves out are neither missed nor the ones to complain of.
    #[must_use]
    pub fn demands(&self, names: PlainNames<'_>) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        collect(&self.root, names, &mut found);
        found
    }
}

/// Adds what the expression demands; false: testing it may fail, so nothing behind it counts.
fn collect<'a>(expression: &'a Expression, names: PlainNames<'_>, found: &mut Vec<(&'a str, &'a str)>) -> bool {
    match expression {
        Expression::All(parts) => parts.iter().all(|part| collect(part, names, found)),
        Expression::Match { selector, matching: Matching::Equal(literal), negated: false } => match &selector.path[..] {
            [field] if names.texts.contains(&field.as_str()) => {
                found.push((field, literal));
                true
            }
            _ => cannot_fail(expression, names),
        },
        Expression::Match { .. } | Expression::Any(_) | Expression::Not(_) | Expression::Each { .. } => cannot_fail(expression, names),
    }
}

fn cannot_fail(expression: &Expression, names: PlainNames<'_>) -> bool {
    match expression {
        Expression::All(parts) | Expression::Any(parts) => parts.iter().all(|part| cannot_fail(part, names)),
        Expression::Not(inner) => cannot_fail(inner, names),
        Expression::Each { .. } => false,
        Expression::Match { selector, matching, .. } => {
            let [field] = &selector.path[..] else { return false };
            let is_in = |names: &[&str]| names.contains(&field.as_str());
            match matching {
                Matching::Equal(literal) => is_in(names.texts) || is_in(names.integers) && eval::is_any_integer(literal),
                Matching::In(_) | Matching::Empty => is_in(names.texts),
                Matching::Regexp(pattern) => is_in(names.texts) && pattern.compiled.is_ok(),
            }
        }
    }
}
