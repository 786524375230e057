//! Evaluation of expressions.
//!
//! An undeclared name is not an error: it is known only on the node that runs the task, and evaluates to the text of
//! the reference, `${name}`.

use std::collections::BTreeMap;

use super::ast::{Expression, ForExpression, Operator, Step};
use super::convert::{self, Type, convert};
use super::value::{Mapping, Value};
use super::{Diagnostic, Range, functions, traverse, types};

pub(crate) use super::scope::Scope;

/// Elements that an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Literals and operators.
    Constants,
    /// Also names and functions.
    All,
}

/// Evaluates an expression; the value is unknown if diagnostics were added.
pub(crate) fn value(expression: &Expression, scope: &Scope<'_>, allowed: Allowed, found: &mut Vec<Diagnostic>) -> Value {
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
        self.fail(range, "Expressions too large", "The values of all expressions together take more memory than is supported here.")
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
            Expression::Negate { operand, .. } => match self.operand(operand, scope, &Type::Number, "unary operand") {
                Value::Number(number) => Value::Number(number.negate()),
                other => other,
            },
            Expression::Not { operand, .. } => match self.operand(operand, scope, &Type::Bool, "unary operand") {
                Value::Bool(truth) => Value::Bool(!truth),
                other => other,
            },
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
            None if self.allowed == Allowed::Constants => {
                let columns = root.chars().count();
                let mut end = range.start;
                end.byte += root.len();
                end.column += columns;
                self.fail(Range { start: range.start, end }, "Variables not allowed", "Variables may not be used here.")
            }
            None => Value::Text(format!("${{{text}}}")),
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
        match convert(&value, wanted) {
            Ok(Value::Null) => {
                self.fail(expression.range(), "Invalid operand", format!("Unsuitable value for {place}: argument must not be null."))
            }
            Ok(value) => value,
            Err(reason) => self.fail(expression.range(), "Invalid operand", format!("Unsuitable value for {place}: {reason}.")),
        }
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
            Ok(Value::Null) => {
                self.fail(condition.range(), "Null condition", "The condition value is null. Conditions must either be true or false.")
            }
            Ok(_) => Value::Unknown,
            Err(_) => self.fail(condition.range(), "Incorrect condition type", "The condition expression must be of type bool."),
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
                self.fail(range, SUMMARY, "The expression result is null. Cannot include a null value in a string template.");
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

    // ---- collections

    fn object(&mut self, items: &[(Expression, Expression)], scope: &Scope<'_>) -> Value {
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
                    self.fail(key_expression.range(), "Incorrect key type", format!("Can't use this value as a key: {reason}."));
                    known = false;
                }
            }
        }
        if known { Value::object(members) } else { Value::Unknown }
    }

    fn for_expression(&mut self, parts: &ForExpression, scope: &Scope<'_>) -> Value {
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
            Value::Sequence(_, items) => items.into_iter().enumerate().map(|(at, item)| (Value::Number(at.into()), item)).collect(),
            Value::Mapping(_, members) => members.into_iter().map(|(name, value)| (Value::Text(name), value)).collect(),
            other => {
                let detail = format!("A value of type {} cannot be used as the collection in a 'for' expression.", other.type_name());
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
            return Value::object(results.groups.into_iter().map(|(name, items)| (name, Value::tuple(items))).collect());
        }
        Value::object(results.members)
    }

    /// One iteration of a `for`; returns false if it failed.
    fn iteration(&mut self, parts: &ForExpression, scope: &Scope<'_>, results: &mut Results) -> bool {
        if let Some(condition) = &parts.condition {
            let truth = self.value(condition, scope);
            match convert(&truth, &Type::Bool) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => return true,
                Ok(Value::Null) => {
                    self.fail(condition.range(), "Condition is null", "The value of the 'if' clause must not be null.");
                    return false;
                }
                Ok(_) => return false,
                Err(reason) => {
                    self.fail(condition.range(), "Invalid 'for' condition", format!("The 'if' clause value is invalid: {reason}."));
                    return false;
                }
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
        let key = self.value(key_expression, scope);
        let name = match convert(&key, &Type::Text) {
            Ok(Value::Text(name)) => name,
            Ok(Value::Null) => {
                self.fail(
                    key_expression.range(),
                    "Invalid object key",
                    "Key expression in 'for' expression must not produce a null value.",
                );
                return false;
            }
            Ok(_) => return false,
            Err(reason) => {
                let detail = format!("The key expression produced an invalid result: {reason}.");
                self.fail(key_expression.range(), "Invalid object key", detail);
                return false;
            }
        };
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

    fn splat(&mut self, source: &Expression, each: &Expression, scope: &Scope<'_>) -> Value {
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

    // ---- functions

    fn call(&mut self, expression: &Expression, scope: &Scope<'_>) -> Value {
        let Expression::Call { name, arguments, expand_last, name_range, close, .. } = expression else { return Value::Unknown };
        if self.allowed == Allowed::Constants {
            return self.fail(expression.range(), "Function calls not allowed", "Functions may not be called here.");
        }
        if name == "try" || name == "can" {
            return self.attempts(name, arguments, expression.start(), scope);
        }
        if name == "convert" {
            return self.conversion(arguments, expression, scope);
        }
        let Some(function) = functions::find(name) else {
            let hint = super::suggestion(name, functions::names()).map(|known| format!(" Did you mean {known:?}?")).unwrap_or_default();
            return self.fail(*name_range, "Call to unknown function", format!("There is no function named {name:?}.{hint}"));
        };
        let mut given: Vec<(Value, &Expression)> = Vec::new();
        for (at, argument) in arguments.iter().enumerate() {
            if !(*expand_last && at + 1 == arguments.len()) {
                continue;
            }
            match self.value(argument, scope) {
                Value::Sequence(_, items) => given.extend(items.into_iter().map(|item| (item, argument))),
                Value::Unknown => return Value::Unknown,
                _ => {
                    return self.fail(
                        argument.range(),
                        "Invalid expanding argument value",
                        "The expanding argument (indicated by ...) must be of a tuple, list, or set type.",
                    );
                }
            }
        }
        let plain = arguments.len() - usize::from(*expand_last);
        let count = plain + given.len();
        if let Some(missing) = function.missing_parameter(count) {
            let least = if function.is_variadic() { "at least " } else { "" };
            let detail =
                format!("Function {name:?} expects {least}{} argument(s). Missing value for {missing:?}.", function.parameter_count());
            return self.fail(*close, "Not enough function arguments", detail);
        }
        if !function.is_variadic() && count > function.parameter_count() {
            let extra = arguments.get(function.parameter_count()).or(arguments.last());
            let range = extra.map_or(*close, Expression::start);
            let detail = format!("Function {name:?} expects only {} argument(s).", function.parameter_count());
            return self.fail(range, "Too many function arguments", detail);
        }
        let mut all: Vec<(Value, &Expression)> =
            arguments.iter().take(plain).map(|argument| (self.value(argument, scope), argument)).collect();
        all.append(&mut given);
        let value = self.apply(function, all, expression.start(), name, &scope.lots);
        if scope.take(&value) { value } else { self.too_large(expression.range()) }
    }

    /// `try` and `can`: errors in their arguments are not reported.
    fn attempts(&mut self, name: &str, arguments: &[Expression], range: Range, scope: &Scope<'_>) -> Value {
        for argument in arguments {
            let before = self.found.len();
            let value = self.value(argument, scope);
            let failed = self.found.len() > before;
            self.found.truncate(before);
            match (name, failed) {
                ("can", failed) => return Value::Bool(!failed),
                (_, false) => return value,
                (_, true) => {}
            }
        }
        let reason = if arguments.is_empty() { "at least one argument is required" } else { "no expression succeeded" };
        self.fail(range, "Error in function call", format!("Call to function {name:?} failed: {reason}."))
    }

    /// `convert`: the second argument is a type, not a value.
    fn conversion(&mut self, arguments: &[Expression], expression: &Expression, scope: &Scope<'_>) -> Value {
        let [given, wanted] = arguments else {
            let (summary, detail) = match arguments.len() {
                0 => ("Not enough function arguments", "Function \"convert\" expects 2 argument(s). Missing value for \"value\"."),
                1 => ("Not enough function arguments", "Function \"convert\" expects 2 argument(s). Missing value for \"type\"."),
                _ => ("Too many function arguments", "Function \"convert\" expects only 2 argument(s)."),
            };
            return self.fail(expression.start(), summary, detail);
        };
        let value = self.value(given, scope);
        let wanted = match types::type_expression(wanted) {
            Ok(wanted) => wanted,
            Err(diagnostic) => {
                let detail = format!("Invalid value for \"type\" parameter: {}.", diagnostic.detail.trim_end_matches('.'));
                return self.fail(wanted.start(), "Invalid function argument", detail);
            }
        };
        match convert(&value, &wanted) {
            Ok(value) => value,
            Err(reason) => {
                let detail = format!("Invalid value for \"value\" parameter: {reason}.");
                self.fail(given.start(), "Invalid function argument", detail)
            }
        }
    }

    fn apply(
        &mut self,
        function: &functions::Function,
        given: Vec<(Value, &Expression)>,
        range: Range,
        name: &str,
        lots: &functions::Lots,
    ) -> Value {
        let mut values = Vec::with_capacity(given.len());
        let mut sound = true;
        for (at, (value, argument)) in given.iter().enumerate() {
            match function.accept(at, value) {
                Ok(value) => values.push(value),
                Err(reason) => {
                    self.invalid_argument(function, at, argument.start(), &reason);
                    sound = false;
                }
            }
        }
        if !sound || !values.iter().all(Value::is_known) {
            return Value::Unknown;
        }
        match function.call(&values, lots) {
            Ok(value) => value,
            Err(functions::Failure::Argument(at, reason)) => {
                let place = given.get(at).map_or(range, |(_, argument)| argument.start());
                self.invalid_argument(function, at, place, &reason);
                Value::Unknown
            }
            Err(functions::Failure::Call(reason)) => {
                self.fail(range, "Error in function call", format!("Call to function {name:?} failed: {reason}."))
            }
        }
    }

    fn invalid_argument(&mut self, function: &functions::Function, at: usize, range: Range, reason: &str) {
        let detail = format!("Invalid value for {:?} parameter: {reason}.", function.parameter_name(at));
        self.fail(range, "Invalid function argument", detail);
    }
}

/// Results of a `for` so far.
#[derive(Default)]
struct Results {
    items: Vec<Value>,
    members: BTreeMap<String, Value>,
    groups: BTreeMap<String, Vec<Value>>,
}

/// An object of the given names.
pub(crate) fn names_object(names: BTreeMap<String, Value>) -> Value {
    Value::Mapping(Mapping::Object, names)
}
