//! Evaluation of objects, `for` expressions and splats.

use std::collections::BTreeMap;

use super::{Evaluator, Scope};
use crate::hcl::ast::{Expression, ForExpression};
use crate::hcl::convert::{Type, convert};
use crate::hcl::value::Value;

/// Results of a `for` so far.
#[derive(Default)]
struct Results {
    items: Vec<Value>,
    members: BTreeMap<String, Value>,
    groups: BTreeMap<String, Vec<Value>>,
}

impl Evaluator<'_> {
    pub(super) fn object(&mut self, items: &[(Expression, Expression)], scope: &Scope<'_>) -> Value {
        let mut members = BTreeMap::new();
        let mut known = true;
        for (key_expression, value_expression) in items {
            if let Expression::Key { wrapped, computed: false } = key_expression
                && let Expression::Scope { steps, .. } = wrapped.as_ref()
                && !steps.is_empty()
            {
                self.fail(
                    key_expression.range(),
                    "Ambiguous attribute key",
                    "If this expression is intended to be a reference, wrap it in parentheses. If it's instead intended as a literal name \
                     containing periods, wrap it in quotes to create a string literal.",
                );
                known = false;
                continue;
            }
            let key = self.value(key_expression, scope);
            let value = self.value(value_expression, scope);
            match convert(&key, &Type::Text) {
                Ok(Value::Text(name)) => {
                    members.insert(name, value);
                }
                // Reported at the value, as in the reference.
                Ok(Value::Null) => {
                    self.fail(value_expression.range(), "Null value as key", "Can't use a null value as a key.");
                    known = false;
                }
                Ok(_) => known = false,
                Err(reason) => {
                    self.fail(
                        key_expression.range(),
                        "Incorrect key type",
                        format!("Can't use this value as a key: {reason}."),
                    );
                    known = false;
                }
            }
        }
        if known { Value::object(members) } else { Value::Unknown }
    }

    pub(super) fn for_expression(&mut self, parts: &ForExpression, scope: &Scope<'_>) -> Value {
        let collection = self.value(&parts.collection, scope);
        let pairs: Vec<(Value, Value)> = match collection {
            Value::Null => {
                return self.fail(
                    parts.collection.range(),
                    "Iteration over null value",
                    "A null value cannot be used as the collection in a 'for' expression.",
                );
            }
            Value::Unknown => return Value::Unknown,
            Value::Sequence(_, items) => {
                items.into_iter().enumerate().map(|(at, item)| (Value::Number(at.into()), item)).collect()
            }
            Value::Mapping(_, members) => members.into_iter().map(|(name, value)| (Value::Text(name), value)).collect(),
            other => {
                let detail = format!(
                    "A value of type {} cannot be used as the collection in a 'for' expression.",
                    other.type_name()
                );
                return self.fail(parts.collection.range(), "Iteration over non-iterable value", detail);
            }
        };
        let mut results = Results::default();
        for (key, value) in pairs {
            let mut names = BTreeMap::from([(parts.value_name.clone(), value)]);
            if let Some(name) = &parts.key_name {
                names.insert(name.clone(), key);
            }
            let inner = Scope::inside(scope, names);
            if !self.iteration(parts, &inner, &mut results) {
                return Value::Unknown;
            }
        }
        if parts.key.is_none() {
            return Value::tuple(results.items);
        }
        if parts.group {
            return Value::object(
                results.groups.into_iter().map(|(name, items)| (name, Value::tuple(items))).collect(),
            );
        }
        Value::object(results.members)
    }

    /// One iteration of a `for`; returns false if it failed.
    fn iteration(&mut self, parts: &ForExpression, scope: &Scope<'_>, results: &mut Results) -> bool {
        if let Some(condition) = &parts.condition {
            match self.for_condition(condition, scope) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
        let Some(key_expression) = &parts.key else {
            let value = self.value(&parts.value, scope);
            if !scope.take(&value) {
                self.too_large(parts.value.range());
                return false;
            }
            results.items.push(value);
            return true;
        };
        let Some(name) = self.for_key(key_expression, scope) else { return false };
        let value = self.value(&parts.value, scope);
        if !scope.take(&value) {
            self.too_large(parts.value.range());
            return false;
        }
        if parts.group {
            results.groups.entry(name).or_default().push(value);
            return true;
        }
        if results.members.contains_key(&name) {
            let detail = format!(
                "Two different items produced the key {name:?} in this 'for' expression. If duplicates are expected, use the ellipsis (...) \
                 after the value expression to enable grouping by key."
            );
            self.fail(key_expression.range(), "Duplicate object key", detail);
            return false;
        }
        results.members.insert(name, value);
        true
    }

    /// The value of an `if` clause. `None`: it failed or is unknown.
    fn for_condition(&mut self, condition: &Expression, scope: &Scope<'_>) -> Option<bool> {
        let truth = self.value(condition, scope);
        match convert(&truth, &Type::Bool) {
            Ok(Value::Bool(truth)) => return Some(truth),
            Ok(Value::Null) => {
                self.fail(condition.range(), "Condition is null", "The value of the 'if' clause must not be null.");
            }
            Ok(_) => {}
            Err(reason) => {
                self.fail(
                    condition.range(),
                    "Invalid 'for' condition",
                    format!("The 'if' clause value is invalid: {reason}."),
                );
            }
        }
        None
    }

    /// The key of an object's member. `None`: it failed or is unknown.
    fn for_key(&mut self, expression: &Expression, scope: &Scope<'_>) -> Option<String> {
        let key = self.value(expression, scope);
        match convert(&key, &Type::Text) {
            Ok(Value::Text(name)) => return Some(name),
            Ok(Value::Null) => {
                let detail = "Key expression in 'for' expression must not produce a null value.";
                self.fail(expression.range(), "Invalid object key", detail);
            }
            Ok(_) => {}
            Err(reason) => {
                let detail = format!("The key expression produced an invalid result: {reason}.");
                self.fail(expression.range(), "Invalid object key", detail);
            }
        }
        None
    }

    pub(super) fn splat(&mut self, source: &Expression, each: &Expression, scope: &Scope<'_>) -> Value {
        let items = match self.value(source, scope) {
            Value::Unknown => return Value::Unknown,
            Value::Null => Vec::new(),
            Value::Sequence(_, items) => items,
            single => vec![single],
        };
        let outer = self.item.take();
        let mut results = Vec::with_capacity(items.len());
        for item in items {
            self.item = Some(item);
            results.push(self.value(each, scope));
        }
        self.item = outer;
        Value::tuple(results)
    }
}
