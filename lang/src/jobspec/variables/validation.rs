//! `validation` blocks of variables: what they may hold, and the check of a value.

use std::collections::BTreeMap;

use crate::hcl::ast::{Block, Expression};
use crate::hcl::convert::{Type, convert};
use crate::hcl::eval::{self, Allowed, Scope};
use crate::hcl::references::references;
use crate::hcl::value::Value;
use crate::hcl::{Diagnostic, Range};
use crate::jobspec::decode;

/// A condition on the values of a variable, and what to say about a value that does not meet it.
pub(super) struct Validation {
    condition: Expression,
    message: String,
    /// Range of the block's kind.
    range: Range,
}

/// A value of a variable, with its origin.
pub(super) struct Given<'v> {
    pub(super) name: &'v str,
    pub(super) value: &'v Value,
    /// Source of the value: `default` or `varfile`.
    pub(super) source: &'static str,
    pub(super) range: Option<Range>,
}

/// Reads a block inside the declaration of the variable `name`. `None`: it has no condition or no message; what is
/// wrong with a block that can be checked is reported, too.
pub(super) fn read(name: &str, block: &Block, found: &mut Vec<Diagnostic>) -> Option<Validation> {
    let body = &block.body;
    for required in ["condition", "error_message"] {
        if body.attribute(required).is_none() {
            found.push(Diagnostic {
                range: body.missing,
                summary: "Missing required argument".to_string(),
                detail: format!("The argument {required:?} is required, but no definition was found."),
            });
        }
    }
    decode::unexpected(body, &["condition", "error_message"], &[], found);
    let message = body.attribute("error_message").and_then(|given| message(&given.expression, found));
    let Some(condition) = body.attribute("condition").map(|given| given.expression.clone()) else {
        let detail = "validation requires a condition.";
        found.push(Diagnostic::new(block.kind_range, "Invalid variable validation specification", detail));
        return None;
    };
    check_references(name, &condition, found);
    Some(Validation { condition, message: message?, range: block.kind_range })
}

/// The message, which has to be a sentence.
fn message(expression: &Expression, found: &mut Vec<Diagnostic>) -> Option<String> {
    const SUMMARY: &str = "Invalid validation error message";
    let value = eval::value(expression, &Scope::root(BTreeMap::new()), Allowed::Constants, found);
    let text = match convert(&value, &Type::Text) {
        Ok(Value::Text(text)) => text,
        Ok(Value::Null) => String::new(),
        Ok(_) => return None,
        Err(reason) => {
            let detail = format!("Unsuitable value: {reason}");
            found.push(Diagnostic::new(expression.start(), "Unsuitable value type", detail));
            return None;
        }
    };
    let wrong = if text.is_empty() {
        Some("An empty string is not a valid nor useful error message.")
    } else if !is_sentence(&text) {
        Some(
            "Validation error message must be at least one full sentence starting with an uppercase letter ( if the alphabet permits it ) \
             and ending with a period or question mark.",
        )
    } else {
        None
    };
    if let Some(detail) = wrong {
        found.push(Diagnostic::new(expression.range(), SUMMARY, detail));
    }
    Some(text)
}

/// Whether a text begins like a sentence, where its letters have cases, and ends like one.
fn is_sentence(text: &str) -> bool {
    let begins = text.chars().next().is_some_and(|first| !first.is_alphabetic() || !first.is_lowercase());
    begins && text.ends_with(['.', '?', '!'])
}

/// A condition refers to its own variable, and to nothing else.
fn check_references(name: &str, condition: &Expression, found: &mut Vec<Diagnostic>) {
    let all = references(condition);
    let (own, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|reference| reference.root == "var" && reference.attribute == Some(name));
    for other in &others {
        let detail =
            format!("The condition for variable {name:?} can only refer to the variable itself, using var.{name}.");
        found.push(Diagnostic::new(other.range, "Invalid reference in variable validation", detail));
    }
    if own.is_empty() && others.is_empty() {
        let detail =
            format!("The condition for variable {name:?} must refer to var.{name} in order to test incoming values.");
        found.push(Diagnostic::new(condition.range(), "Invalid variable validation condition", detail));
    }
}

/// Evaluates the condition for a value, and reports the value if it does not meet it.
pub(super) fn check(validation: &Validation, given: &Given<'_>, file: &str, found: &mut Vec<Diagnostic>) {
    const SUMMARY: &str = "Invalid variable validation result";
    let own = eval::names_object(BTreeMap::from([(given.name.to_string(), given.value.clone())]));
    let scope = Scope::of_file(BTreeMap::from([("var".to_string(), own)]), file, 0);
    let condition = &validation.condition;
    let truth = eval::value(condition, &scope, Allowed::Declared, found);
    match convert(&truth, &Type::Bool) {
        Ok(Value::Bool(false)) => {
            let place = validation.range.shown(file);
            found.push(Diagnostic {
                range: given.range,
                summary: format!("Invalid value for {} variable", given.source),
                detail: format!("{}\n\nThis was checked by the validation rule at {place}.", validation.message),
            });
        }
        Ok(Value::Null) => {
            let detail = "Validation condition expression must return either true or false, not null.";
            found.push(Diagnostic::new(condition.range(), SUMMARY, detail));
        }
        Ok(_) => {}
        Err(reason) => {
            let detail = format!("Invalid validation condition result value: {reason}.");
            found.push(Diagnostic::new(condition.range(), SUMMARY, detail));
        }
    }
}
