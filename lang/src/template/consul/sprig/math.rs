//! Numbers. Texts and booleans are numbers, too; what is none is 0.

use std::num::IntErrorKind;

use super::{Called, Plain, arg};
use crate::template::{Type, Value, format};

pub(super) const PLAIN: &[Plain] = &[
    ("add", &[], Some(Type::Any), |args| {
        Ok(Value::Int(args.iter().fold(0, |total: i64, value| total.wrapping_add(whole(value)))))
    }),
    ("add1", &[Type::Any], None, |args| Ok(Value::Int(whole(&args[0]).wrapping_add(1)))),
    ("add1f", &[Type::Any], None, |args| Ok(Value::Float(decimals::add(float(&args[0]), 1.0)))),
    ("addf", &[], Some(Type::Any), |args| Ok(Value::Float(args.iter().map(float).fold(0.0, decimals::add)))),
    ("atoi", &[Type::Text], None, |args| {
        Ok(Value::Int(arg(args, 0).parse().unwrap_or_else(|error: std::num::ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => i64::MAX,
            IntErrorKind::NegOverflow => i64::MIN,
            _ => 0,
        })))
    }),
    ("biggest", &[Type::Any], Some(Type::Any), |args| Ok(Value::Int(args.iter().map(whole).max().unwrap_or_default()))),
    ("ceil", &[Type::Any], None, |args| Ok(Value::Float(float(&args[0]).ceil()))),
    ("div", &[Type::Any, Type::Any], None, |args| divided(args, i64::wrapping_div)),
    ("divf", &[Type::Any], Some(Type::Any), |args| reduced(args, |a, b| a / b)),
    ("float64", &[Type::Any], None, |args| Ok(Value::Float(float(&args[0])))),
    ("floor", &[Type::Any], None, |args| Ok(Value::Float(float(&args[0]).floor()))),
    ("int", &[Type::Any], None, |args| Ok(Value::Int(whole(&args[0])))),
    ("int64", &[Type::Any], None, |args| Ok(Value::Int(whole(&args[0])))),
    ("max", &[Type::Any], Some(Type::Any), |args| Ok(Value::Int(args.iter().map(whole).max().unwrap_or_default()))),
    ("maxf", &[Type::Any], Some(Type::Any), |args| reduced(args, f64::max)),
    ("min", &[Type::Any], Some(Type::Any), |args| Ok(Value::Int(args.iter().map(whole).min().unwrap_or_default()))),
    ("minf", &[Type::Any], Some(Type::Any), |args| reduced(args, f64::min)),
    ("mod", &[Type::Any, Type::Any], None, |args| divided(args, i64::wrapping_rem)),
    ("mul", &[Type::Any], Some(Type::Any), |args| {
        Ok(Value::Int(args.iter().fold(1, |total: i64, value| total.wrapping_mul(whole(value)))))
    }),
    ("mulf", &[Type::Any], Some(Type::Any), |args| reduced(args, decimals::multiply)),
    ("round", &[Type::Any, Type::Int], Some(Type::Float), |args| {
        let from = args.get(2).map_or(0.5, float);
        let scale = 10_f64.powf(float(&args[1]));
        let digits = float(&args[0]) * scale;
        let rounded = if digits.fract() >= from { digits.ceil() } else { digits.floor() };
        Ok(Value::Float(rounded / scale))
    }),
    ("sub", &[Type::Any, Type::Any], None, |args| Ok(Value::Int(whole(&args[0]).wrapping_sub(whole(&args[1]))))),
    ("subf", &[Type::Any], Some(Type::Any), |args| reduced(args, |a, b| decimals::add(a, -b))),
    ("toDecimal", &[Type::Any], None, |args| {
        Ok(Value::Int(i64::from_str_radix(&format::plain(&args[0]), 8).unwrap_or_default()))
    }),
];

/// A value as a whole number; 0 if it is none.
pub(super) fn whole(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        Value::Float(number) => *number as i64,
        Value::Bool(truth) => i64::from(*truth),
        Value::Text(text) => literal(text).unwrap_or_default(),
        _ => 0,
    }
}

fn float(value: &Value) -> f64 {
    match value {
        Value::Float(number) => *number,
        Value::Text(text) => text.parse().unwrap_or_default(),
        other => whole(other) as f64,
    }
}

/// A number as Go's language spells it: `0x10`, `010` and `1_000` are numbers.
fn literal(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.to_ascii_lowercase().replace('_', "");
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', b'b', ..] => (2, &digits[2..]),
        [b'0', b'o', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits.as_str()),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if is_negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

fn divided(args: &[Value], by: fn(i64, i64) -> i64) -> Called {
    match whole(&args[1]) {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        divisor => Ok(Value::Int(by(whole(&args[0]), divisor))),
    }
}

fn reduced(args: &[Value], by: fn(f64, f64) -> f64) -> Called {
    Ok(Value::Float(args.iter().map(float).reduce(by).unwrap_or_default()))
}

/// Arithmetic without the rounding of binary fractions: 0.1 and 0.2 is 0.3.
mod decimals {
    /// Most digits after the point; numbers with more are added and multiplied in binary.
    const PLACES_MAX: usize = 17;

    pub fn add(a: f64, b: f64) -> f64 {
        let exact = || {
            let ((a, a_places), (b, b_places)) = (digits(a)?, digits(b)?);
            let places = a_places.max(b_places);
            let scaled = |digits: i128, own: u32| digits.checked_mul(10_i128.checked_pow(places - own)?);
            number(scaled(a, a_places)?.checked_add(scaled(b, b_places)?)?, places)
        };
        exact().unwrap_or(a + b)
    }

    pub fn multiply(a: f64, b: f64) -> f64 {
        let exact = || {
            let ((a, a_places), (b, b_places)) = (digits(a)?, digits(b)?);
            number(a.checked_mul(b)?, a_places + b_places)
        };
        exact().unwrap_or(a * b)
    }

    /// The digits of a number, and how many of them are after the point.
    fn digits(number: f64) -> Option<(i128, u32)> {
        let text = format!("{number}");
        let (whole, fraction) = text.split_once('.').unwrap_or((text.as_str(), ""));
        let places = u32::try_from(fraction.len()).ok().filter(|_| fraction.len() <= PLACES_MAX)?;
        Some((format!("{whole}{fraction}").parse().ok()?, places))
    }

    fn number(digits: i128, places: u32) -> Option<f64> {
        format!("{digits}e-{places}").parse().ok()
    }
}
