//! Evaluation of function calls, and of `try`, `can` and `convert`, which look at expressions instead of values.

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
        match name.as_str() {
            "try" => return self.first_success(arguments, expression.start(), scope),
            "can" => return self.success(arguments, *close, scope),
            "convert" => return self.conversion(arguments, *close, scope),
            _ => {}
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

    /// `try`: the first argument without errors. The errors of all arguments are told if each has some.
    fn first_success(&mut self, arguments: &[Expression], range: Range, scope: &Scope<'_>) -> Value {
        let before = self.found.len();
        for argument in arguments {
            let tried = self.found.len();
            let value = self.value(argument, scope);
            if self.found.len() == tried {
                self.found.truncate(before);
                return value;
            }
        }
        let failures = self.found.split_off(before);
        let reason = if arguments.is_empty() {
            "at least one argument is required".to_string()
        } else {
            let told: String = failures.iter().map(|failure| failure.as_item(scope.file())).collect();
            format!("no expression succeeded:\n{told}\nAt least one expression must produce a successful result")
        };
        self.fail(range, "Error in function call", format!("Call to function \"try\" failed: {reason}."))
    }

    /// `can`: whether its argument has no errors, which are not reported.
    fn success(&mut self, arguments: &[Expression], close: Range, scope: &Scope<'_>) -> Value {
        let Some([argument]) = self.exactly("can", ["expression"], arguments, close) else { return Value::Unknown };
        let before = self.found.len();
        self.value(argument, scope);
        let succeeded = self.found.len() == before;
        self.found.truncate(before);
        Value::Bool(succeeded)
    }

    /// The arguments of a function that takes exactly these; reports too few and too many.
    fn exactly<'e, const COUNT: usize>(
        &mut self,
        name: &str,
        parameters: [&str; COUNT],
        arguments: &'e [Expression],
        close: Range,
    ) -> Option<&'e [Expression; COUNT]> {
        if let Some(missing) = parameters.get(arguments.len()) {
            let detail = format!("Function {name:?} expects {COUNT} argument(s). Missing value for {missing:?}.");
            self.fail(close, "Not enough function arguments", detail);
        } else if let Some(extra) = arguments.get(COUNT) {
            let detail = format!("Function {name:?} expects only {COUNT} argument(s).");
            self.fail(extra.start(), "Too many function arguments", detail);
        }
        arguments.try_into().ok()
    }

    /// `convert`: the second argument is a type, not a value.
    fn conversion(&mut self, arguments: &[Expression], close: Range, scope: &Scope<'_>) -> Value {
        let Some([given, wanted]) = self.exactly("convert", ["value", "type"], arguments, close) else {
            return Value::Unknown;
        };
        let value = self.value(given, scope);
        let wanted = match types::type_expression(wanted, types::Exactness::Open) {
            Ok(wanted) => wanted,
            Err(diagnostic) => {
                self.found.push(diagnostic);
                return Value::Unknown;
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
