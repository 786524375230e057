//! References of an expression: the names that it takes from its scope, without those that it defines itself.

use super::Range;
use super::ast::{Expression, ForExpression, Step};

/// A name with the first attribute that is taken from it, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference<'e> {
    pub(crate) root: &'e str,
    pub(crate) attribute: Option<&'e str>,
    /// Range of the whole reference, with all its steps.
    pub(crate) range: Range,
}

/// All references, in the order of the text.
pub(crate) fn references(expression: &Expression) -> Vec<Reference<'_>> {
    let mut walk = Walk { bound: Vec::new(), found: Vec::new() };
    walk.expression(expression);
    walk.found
}

struct Walk<'e> {
    /// Names that `for` expressions around the current one define.
    bound: Vec<&'e str>,
    found: Vec<Reference<'e>>,
}

impl<'e> Walk<'e> {
    fn all(&mut self, expressions: impl IntoIterator<Item = &'e Expression>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    fn expression(&mut self, expression: &'e Expression) {
        match expression {
            Expression::Literal(..) | Expression::SplatItem(_) => {}
            Expression::Scope { root, steps, range, .. } => self.name(root, steps, *range),
            Expression::Template(parts, _) => self.all(parts),
            Expression::TemplateWrap(inner, _)
            | Expression::TemplateJoin(inner)
            | Expression::Parentheses(inner, _)
            | Expression::Relative { source: inner, .. }
            | Expression::Negate { operand: inner, .. }
            | Expression::Not { operand: inner, .. } => self.expression(inner),
            Expression::Call { arguments, .. } => self.all(arguments),
            Expression::Conditional { condition, yes, no, .. } => self.all([&**condition, &**yes, &**no]),
            Expression::Binary { left, right, .. } => self.all([&**left, &**right]),
            Expression::Tuple { items, .. } => self.all(items),
            Expression::Object { items, .. } => self.all(items.iter().flat_map(|(key, value)| [key, value])),
            Expression::Key { wrapped, computed } => {
                if *computed || wrapped.keyword().is_none() {
                    self.expression(wrapped);
                }
            }
            Expression::For(parts) => self.for_expression(parts),
            Expression::Index { collection, key, .. } => self.all([&**collection, &**key]),
            Expression::Splat { source, each, .. } => self.all([&**source, &**each]),
        }
    }

    fn name(&mut self, root: &'e str, steps: &'e [Step], range: Range) {
        if self.bound.contains(&root) {
            return;
        }
        let attribute = match steps.first() {
            Some(Step::Attribute(name, _)) => Some(name.as_str()),
            Some(Step::Index(..)) | None => None,
        };
        self.found.push(Reference { root, attribute, range });
    }

    fn for_expression(&mut self, parts: &'e ForExpression) {
        self.expression(&parts.collection);
        let outside = self.bound.len();
        self.bound.extend(parts.key_name.as_deref());
        self.bound.push(&parts.value_name);
        self.all(parts.key.iter().chain([&parts.value]).chain(&parts.condition));
        self.bound.truncate(outside);
    }
}
