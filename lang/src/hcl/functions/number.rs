//! Functions on numbers.

use super::{Called, Failure, Function, Parameter, Takes, fail, integer_of, number_of, plain, text_of, variadic};
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
    plain("parseint", &[("number", Takes::Text), ("base", Takes::Number)], parse_integer),
    plain("pow", &[("num", Takes::Number), ("power", Takes::Number)], |given| {
        of_float(number_of(given, 0).as_f64().powf(number_of(given, 1).as_f64()))
    }),
    plain("signum", NUMBER, |given| {
        let order = number_of(given, 0).compare(Number::Integer(0));
        Ok(Value::integer(order as i128))
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
    let base = integer_of(given, 1)?;
    let Some(radix) = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix)) else {
        return Err(Failure::Argument(1, format!("base must be a whole number between 2 and 62 inclusive, got {base}")));
    };
    match i128::from_str_radix(text_of(given, 0), radix) {
        Ok(number) => Ok(Value::integer(number)),
        Err(_) => Err(Failure::Argument(0, format!("cannot parse {:?} as a base {base} integer", text_of(given, 0)))),
    }
}
