//! Functions on numbers.

use super::{
    Called, Failure, Function, Parameter, Takes, fail, integer_of, number_of, plain, text_of, variadic, whole_of,
};
use crate::hcl::convert::type_of;
use crate::hcl::value::{Number, Value};

const NUMBER: &[Parameter] = &[("num", Takes::Number)];
const NUMBERS: Parameter = ("numbers", Takes::Number);

pub(super) const FUNCTIONS: &[Function] = &[
    plain("abs", NUMBER, |given| {
        let number = number_of(given, 0);
        Ok(Value::Number(if number.compare(Number::Integer(0)).is_lt() { number.negate() } else { number }))
    }),
    plain("ceil", NUMBER, |given| rounded(given, f64::ceil)),
    plain("floor", NUMBER, |given| rounded(given, f64::floor)),
    plain("log", &[("num", Takes::Number), ("base", Takes::Number)], |given| {
        of_float(number_of(given, 0).as_f64().ln() / number_of(given, 1).as_f64().ln())
    }),
    variadic("max", &[], NUMBERS, |given| extreme(given, Number::compare)),
    variadic("min", &[], NUMBERS, |given| extreme(given, |a, b| b.compare(a))),
    plain("parseint", &[("number", Takes::Any), ("base", Takes::Number)], parse_integer),
    plain("pow", &[("num", Takes::Number), ("power", Takes::Number)], |given| {
        of_float(number_of(given, 0).as_f64().powf(number_of(given, 1).as_f64()))
    }),
    plain("signum", NUMBER, |given| {
        let whole = whole_of(given, 0).or_else(fail)?;
        Ok(Value::integer(i128::from(whole.signum())))
    }),
];

fn of_float(float: f64) -> Called {
    if float.is_nan() { fail("the result is not a number") } else { Ok(Value::Number(Number::from(float))) }
}

fn rounded(given: &[Value], round: fn(f64) -> f64) -> Called {
    match number_of(given, 0) {
        whole @ Number::Integer(_) => Ok(Value::Number(whole)),
        Number::Float(float) => of_float(round(float)),
    }
}

fn extreme(given: &[Value], order: fn(Number, Number) -> std::cmp::Ordering) -> Called {
    let numbers = (0..given.len()).map(|at| number_of(given, at));
    match numbers.max_by(|a, b| order(*a, *b)) {
        Some(number) => Ok(Value::Number(number)),
        None => fail("must pass at least one number"),
    }
}

fn parse_integer(given: &[Value]) -> Called {
    if let Some(other) = given.first().filter(|value| !matches!(value, Value::Text(_))) {
        return Err(Failure::Argument(0, format!("first argument must be a string, not {}", type_of(other).name())));
    }
    let base = integer_of(given, 1)?;
    let Some(radix) = u8::try_from(base).ok().filter(|radix| (2..=62).contains(radix)) else {
        return Err(Failure::Argument(1, "base must be a whole number between 2 and 62 inclusive".to_string()));
    };
    match parsed(text_of(given, 0), radix) {
        Some(number) => Ok(Value::integer(number)),
        None => Err(Failure::Argument(0, format!("cannot parse {:?} as a base {base} integer", text_of(given, 0)))),
    }
}

/// Parses digits after an optional sign. Up to base 36, capitals equal small letters; above, they are the higher
/// digits.
fn parsed(text: &str, radix: u8) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() {
        return None;
    }
    let mut sum: i128 = 0;
    for digit in digits.bytes() {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'z' => digit - b'a' + 10,
            b'A'..=b'Z' if radix <= 36 => digit - b'A' + 10,
            b'A'..=b'Z' => digit - b'A' + 36,
            _ => return None,
        };
        if value >= radix {
            return None;
        }
        sum = sum.checked_mul(i128::from(radix))?.checked_add(i128::from(value))?;
    }
    Some(if negative { -sum } else { sum })
}
