//! Functions on text.

use super::{Failure, Function, Parameter, Takes};
use crate::hcl::value::{Number, Value};

const TEXT: &[Parameter] = &[("str", Takes::Text)];

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "upper", parameters: TEXT, rest: None, run: |given| on_text(given, str::to_uppercase) },
    Function { name: "lower", parameters: TEXT, rest: None, run: |given| on_text(given, str::to_lowercase) },
    Function { name: "reverse", parameters: TEXT, rest: None, run: |given| on_text(given, reversed) },
    Function { name: "strrev", parameters: TEXT, rest: None, run: |given| on_text(given, reversed) },
    Function { name: "strlen", parameters: TEXT, rest: None, run: length },
];

/// The text of the argument; parameters of text never see anything else.
fn text_of(given: &[Value], at: usize) -> &str {
    match given.get(at) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

fn on_text(given: &[Value], change: fn(&str) -> String) -> Result<Value, Failure> {
    Ok(Value::Text(change(text_of(given, 0))))
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

fn length(given: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Number(Number::from(text_of(given, 0).chars().count())))
}
