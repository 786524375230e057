//! Equalities that a filter demands of every matching row, which an index can answer. The caller knows the indexes.
//!
//! An index must not hide an error that a test of every row would report: only terms tested before any term that can
//! fail are used.

use super::Filter;
use super::eval;
use super::syntax::{Expression, Matching};

/// Fields of a row that are neither struct nor list nor map.
#[derive(Debug, Clone, Copy)]
pub struct PlainNames<'a> {
    /// Text fields; an empty one may be absent.
    pub texts: &'a [&'a str],
    /// Integer fields; a zero one may be absent.
    pub integers: &'a [&'a str],
}

impl Filter {
    /// Fields and the texts that they must equal in every matching row. Testing a row with another text gives false
    /// and no error, so an index may leave such rows out.
    #[must_use]
    pub fn demands(&self, names: PlainNames<'_>) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        collect(&self.root, names, &mut found);
        found
    }
}

/// Adds the demands of the expression. Returns false if testing the expression may fail, so that later terms can not
/// be used.
fn collect<'a>(expression: &'a Expression, names: PlainNames<'_>, found: &mut Vec<(&'a str, &'a str)>) -> bool {
    match expression {
        Expression::All(parts) => parts.iter().all(|part| collect(part, names, found)),
        Expression::Match { selector, matching: Matching::Equal(literal), negated: false } => {
            match &selector.path[..] {
                [field] if names.texts.contains(&field.as_str()) => {
                    found.push((field, literal));
                    true
                }
                _ => cannot_fail(expression, names),
            }
        }
        Expression::Match { .. } | Expression::Any(_) | Expression::Not(_) | Expression::Each { .. } => {
            cannot_fail(expression, names)
        }
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
                Matching::Equal(literal) => {
                    is_in(names.texts) || is_in(names.integers) && eval::is_any_integer(literal)
                }
                Matching::In(_) | Matching::Empty => is_in(names.texts),
                Matching::Regexp(pattern) => is_in(names.texts) && pattern.compiled.is_ok(),
            }
        }
    }
}
