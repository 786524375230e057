//! Evaluation of expressions.
//!
//! An undeclared name is not an error: it is known only on the node that runs the task, and evaluates to the text of
//! the reference, `${name}`.

mod call;
mod collection;

use std::collections::BTreeMap;

use super::ast::{Expression, Operator, Step};
use super::convert::{self, Type, convert};
use super::value::{Mapping, Value};
use super::{Diagnostic, Range, suggestion, traverse};

pub(crate) use super::scope::Scope;

/// Elements that an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Literals and operators.
    Constants,
    /// Also functions, and names that are declared.
    Declared,
    /// Also names that are known only on a node.
    All,
}

/// Evaluates an expression; the value is unknown if diagnostics were added.
pub(crate) fn value(
    expression: &Expression,
    scope: &Scope<'_>,
    allowed: Allowed,
    found: &mut Vec<Diagnostic>,
) -> Value {
    let mut evaluator = Evaluator { allowed, found, item: None };
    evaluator.value(expression, scope)
}

struct Evaluator<'d> {
    allowed: Allowed,
    found: &'d mut Vec<Diagnostic>,
    /// Current element of the innermost splat.
    item: Option<Value>,
}

impl Evaluator<'_> {
    fn fail(&mut self, range: Range, summary: &str, detail: impl Into<String>) -> Value {
        self.found.push(Diagnostic::new(range, summary, detail));
        Value::Unknown
    }

    fn too_large(&mut self, range: Range) -> Value {
        self.fail(
            range,
            "Expressions too large",
            "The values of all expressions together take more memory than is supported here.",
        )
    }

    fn value(&mut self, expression: &Expression, scope: &Scope<'_>) -> Value {
        match expression {
            Expression::Literal(value, _) => value.clone(),
            Expression::Template(parts, _) => self.template(parts, scope),
            Expression::TemplateWrap(inner, _) | Expression::Parentheses(inner, _) => self.value(inner, scope),
            Expression::TemplateJoin(inner) => self.join(inner, scope),
            Expression::Scope { root, steps, text, range } => self.name(root, steps, text, *range, scope),
            Expression::Relative { source, steps, .. } => {
                let value = self.value(source, scope);
                self.steps(&value, steps)
            }
            Expression::Call { .. } => self.call(expression, scope),
            Expression::Conditional { condition, yes, no, .. } => self.conditional(condition, yes, no, scope),
            Expression::Binary { left, operator, right, .. } => self.binary(left, *operator, right, scope),
            Expression::Negate { operand, range, .. } => {
                match self.operand(operand, scope, &Type::Number, "unary operand") {
                    Value::Number(number) => Value::Number(number.negate()),
                    Value::Null => self.null_operand(*range),
                    other => other,
                }
            }
            Expression::Not { operand, range, .. } => {
                match self.operand(operand, scope, &Type::Bool, "unary operand") {
                    Value::Bool(truth) => Value::Bool(!truth),
                    Value::Null => self.null_operand(*range),
                    other => other,
                }
            }
            Expression::Tuple { items, .. } => Value::tuple(items.iter().map(|item| self.value(item, scope)).collect()),
            Expression::Object { items, .. } => self.object(items, scope),
            Expression::Key { wrapped, computed } => match wrapped.keyword() {
                Some(name) if !computed => Value::text(name),
                _ => self.value(wrapped, scope),
            },
            Expression::For(parts) => self.for_expression(parts, scope),
            Expression::Index { collection, key, bracket, .. } => {
                let collection = self.value(collection, scope);
                let key = self.value(key, scope);
                match traverse::index(&collection, &key, *bracket) {
                    Ok(found) => found.clone(),
                    Err(diagnostic) => {
                        self.found.push(diagnostic);
                        Value::Unknown
                    }
                }
            }
            Expression::Splat { source, each, .. } => self.splat(source, each, scope),
            Expression::SplatItem(_) => self.item.clone().unwrap_or(Value::Unknown),
        }
    }

    // ---- names

    fn name(&mut self, root: &str, steps: &[Step], text: &str, range: Range, scope: &Scope<'_>) -> Value {
        match scope.lookup(root) {
            Some(value) => {
                let value = self.steps(value, steps);
                if scope.take(&value) {
                    return value;
                }
                self.too_large(range)
            }
            None => match self.allowed {
                Allowed::Constants => {
                    self.fail(of_root(range, root), "Variables not allowed", "Variables may not be used here.")
                }
                Allowed::Declared => {
                    let hint = suggestion(root, scope.names())
                        .map(|known| format!(" Did you mean {known:?}?"))
                        .unwrap_or_default();
                    let detail = format!("There is no variable named {root:?}.{hint}");
                    self.fail(of_root(range, root), "Unknown variable", detail)
                }
                Allowed::All => Value::Text(format!("${{{text}}}")),
            },
        }
    }

    fn steps(&mut self, from: &Value, steps: &[Step]) -> Value {
        let mut value = from;
        for step in steps {
            let next = match step {
                Step::Attribute(name, range) => traverse::attribute(value, name, *range),
                Step::Index(key, range) => traverse::index(value, key, *range),
            };
            match next {
                Ok(found) => value = found,
                Err(diagnostic) => {
                    self.found.push(diagnostic);
                    return Value::Unknown;
                }
            }
        }
        value.clone()
    }

    // ---- operators

    fn operand(&mut self, expression: &Expression, scope: &Scope<'_>, wanted: &Type, place: &str) -> Value {
        let value = self.value(expression, scope);
        convert(&value, wanted).unwrap_or_else(|reason| {
            self.fail(expression.range(), "Invalid operand", format!("Unsuitable value for {place}: {reason}."))
        })
    }

    fn null_operand(&mut self, range: Range) -> Value {
        self.fail(range, "Operation failed", "Error during operation: argument must not be null.")
    }

    fn binary(&mut self, left: &Expression, operator: Operator, right: &Expression, scope: &Scope<'_>) -> Value {
        let wanted = match operator {
            Operator::Equal | Operator::NotEqual => Type::Any,
            Operator::Or | Operator::And => Type::Bool,
            Operator::Greater
            | Operator::GreaterEqual
            | Operator::Less
            | Operator::LessEqual
            | Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Modulo => Type::Number,
        };
        if wanted == Type::Any {
            let (a, b) = (self.value(left, scope), self.value(right, scope));
            if !a.is_known() || !b.is_known() {
                return Value::Unknown;
            }
            return Value::Bool((a == b) == (operator == Operator::Equal));
        }
        let a = self.operand(left, scope, &wanted, "left operand");
        let b = self.operand(right, scope, &wanted, "right operand");
        match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => Value::Bool(if operator == Operator::And { a && b } else { a || b }),
            (Value::Number(a), Value::Number(b)) => {
                let order = a.compare(b);
                let result = match operator {
                    Operator::Add => Some(Value::Number(a.add(b))),
                    Operator::Subtract => Some(Value::Number(a.subtract(b))),
                    Operator::Multiply => Some(Value::Number(a.multiply(b))),
                    Operator::Divide => a.divide(b).map(Value::Number),
                    Operator::Modulo => a.modulo(b).map(Value::Number),
                    Operator::Greater => Some(Value::Bool(order.is_gt())),
                    Operator::GreaterEqual => Some(Value::Bool(order.is_ge())),
                    Operator::Less => Some(Value::Bool(order.is_lt())),
                    Operator::LessEqual => Some(Value::Bool(order.is_le())),
                    Operator::Or | Operator::And | Operator::Equal | Operator::NotEqual => None,
                };
                result.unwrap_or_else(|| {
                    self.fail(
                        left.range().to(right.range()),
                        "Operation failed",
                        "Error during operation: can't divide zero by zero or infinity by infinity.",
                    )
                })
            }
            (Value::Unknown, _) | (_, Value::Unknown) => Value::Unknown,
            (Value::Null, _) | (_, Value::Null) => self.null_operand(left.range().to(right.range())),
            _ => Value::Unknown,
        }
    }

    fn conditional(&mut self, condition: &Expression, yes: &Expression, no: &Expression, scope: &Scope<'_>) -> Value {
        let chosen = [self.value(yes, scope), self.value(no, scope)];
        let [yes_value, no_value] = match convert::unified(chosen.to_vec()) {
            Ok(values) => match <[Value; 2]>::try_from(values) {
                Ok(pair) => pair,
                Err(_) => return Value::Unknown,
            },
            Err(()) => {
                let [yes_value, no_value] = &chosen;
                let detail = format!(
                    "The true and false result expressions must have consistent types. The given expressions are {} and {}, respectively.",
                    yes_value.type_name(),
                    no_value.type_name()
                );
                return self.fail(yes.range().to(no.range()), "Inconsistent conditional result types", detail);
            }
        };
        let truth = self.value(condition, scope);
        match convert(&truth, &Type::Bool) {
            Ok(Value::Bool(true)) => yes_value,
            Ok(Value::Bool(false)) => no_value,
            Ok(Value::Null) => self.fail(
                condition.range(),
                "Null condition",
                "The condition value is null. Conditions must either be true or false.",
            ),
            Ok(_) => Value::Unknown,
            Err(_) => self.fail(
                condition.range(),
                "Incorrect condition type",
                "The condition expression must be of type bool.",
            ),
        }
    }

    // ---- templates

    fn template(&mut self, parts: &[Expression], scope: &Scope<'_>) -> Value {
        let mut text = String::new();
        let mut known = true;
        for part in parts {
            let value = self.value(part, scope);
            match self.template_text(&value, part.range()) {
                Some(part) => text.push_str(&part),
                None => known = false,
            }
        }
        if known { Value::Text(text) } else { Value::Unknown }
    }

    fn template_text(&mut self, value: &Value, range: Range) -> Option<String> {
        const SUMMARY: &str = "Invalid template interpolation value";
        match convert(value, &Type::Text) {
            Ok(Value::Text(text)) => Some(text),
            Ok(Value::Null) => {
                self.fail(
                    range,
                    SUMMARY,
                    "The expression result is null. Cannot include a null value in a string template.",
                );
                None
            }
            Ok(_) => None,
            Err(reason) => {
                self.fail(range, SUMMARY, format!("Cannot include the given value in a string template: {reason}."));
                None
            }
        }
    }

    fn join(&mut self, inner: &Expression, scope: &Scope<'_>) -> Value {
        match self.value(inner, scope) {
            Value::Sequence(_, items) => {
                let mut text = String::new();
                for item in items {
                    match item {
                        Value::Text(part) => text.push_str(&part),
                        _ => return Value::Unknown,
                    }
                }
                Value::Text(text)
            }
            _ => Value::Unknown,
        }
    }
}

/// The range of the first name of a reference with this range.
fn of_root(range: Range, root: &str) -> Range {
    let mut end = range.start;
    end.byte += root.len();
    end.column += root.chars().count();
    Range { start: range.start, end }
}

/// An object of the given names.
pub(crate) fn names_object(names: BTreeMap<String, Value>) -> Value {
    Value::Mapping(Mapping::Object, names)
}
