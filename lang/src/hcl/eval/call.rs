//! Evaluation of function calls, `try`, `can` and `convert`.

use super::{Allowed, Evaluator, Scope};
use crate::hcl::ast::Expression;
use crate::hcl::convert::convert;
use crate::hcl::value::Value;
use crate::hcl::{Range, functions, suggestion, types};

impl Evaluator<'_> {
    pub(super) fn call(&mut self, expression: &Expression, scope: &Scope<'_>) -> Value {
        let Expression::Call { name, arguments, expand_last, name_range, close, .. } = expression else {
            return Value::Unknown;
        };
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
            let hint = suggestion(name, functions::names())
                .map(|known| format!(" Did you mean {known:?}?"))
                .unwrap_or_default();
            return self.fail(
                *name_range,
                "Call to unknown function",
                format!("There is no function named {name:?}.{hint}"),
            );
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
            let detail = format!(
                "Function {name:?} expects {least}{} argument(s). Missing value for {missing:?}.",
                function.parameter_count()
            );
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
                0 => (
                    "Not enough function arguments",
                    "Function \"convert\" expects 2 argument(s). Missing value for \"value\".",
                ),
                1 => (
                    "Not enough function arguments",
                    "Function \"convert\" expects 2 argument(s). Missing value for \"type\".",
                ),
                _ => ("Too many function arguments", "Function \"convert\" expects only 2 argument(s)."),
            };
            return self.fail(expression.start(), summary, detail);
        };
        let value = self.value(given, scope);
        let wanted = match types::type_expression(wanted) {
            Ok(wanted) => wanted,
            Err(diagnostic) => {
                let detail =
                    format!("Invalid value for \"type\" parameter: {}.", diagnostic.detail.trim_end_matches('.'));
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
