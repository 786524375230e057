//! Numbers: reading them, and arithmetic.

use super::{Plain, arg};
use crate::template::{Type, Value, format, literal};

pub(super) const PLAIN: &[Plain] = &[
    ("add", &[Type::Any, Type::Any], None, |args| arithmetic("add", args, i64::checked_add, |a, b| a + b)),
    ("subtract", &[Type::Any, Type::Any], None, |args| {
        arithmetic("subtract", args, |a, b| b.checked_sub(a), |a, b| b - a)
    }),
    ("multiply", &[Type::Any, Type::Any], None, |args| arithmetic("multiply", args, i64::checked_mul, |a, b| a * b)),
    ("divide", &[Type::Any, Type::Any], None, |args| {
        no_zero(args)?;
        arithmetic("divide", args, |a, b| b.checked_div(a), |a, b| b / a)
    }),
    ("modulo", &[Type::Any, Type::Any], None, |args| {
        no_zero(args)?;
        arithmetic("modulo", args, |a, b| b.checked_rem(a), |a, b| b % a)
    }),
    ("minimum", &[Type::Any, Type::Any], None, |args| arithmetic("minimum", args, |a, b| Some(a.min(b)), f64::min)),
    ("maximum", &[Type::Any, Type::Any], None, |args| arithmetic("maximum", args, |a, b| Some(a.max(b)), f64::max)),
    ("parseBool", &[Type::Text], None, parse_bool),
    ("parseFloat", &[Type::Text], None, parse_float),
    ("parseInt", &[Type::Text], None, |args| {
        if arg(args, 0).is_empty() {
            return Ok(Value::Int(0));
        }
        parsed("parseInt", "ParseInt", arg(args, 0), arg(args, 0).parse::<i64>().map(Value::Int))
    }),
    ("parseUint", &[Type::Text], None, |args| {
        if arg(args, 0).is_empty() {
            return Ok(Value::Uint(0));
        }
        let text = arg(args, 0);
        let number = if text.starts_with('+') { "".parse() } else { text.parse::<u64>() };
        parsed("parseUint", "ParseUint", text, number.map(Value::Uint))
    }),
];

/// A number of either kind.
enum Number {
    Int(i64),
    Float(f64),
}

fn number(function: &str, value: &Value) -> Result<Number, String> {
    match value {
        Value::Int(number) => Ok(Number::Int(*number)),
        Value::Uint(number) => {
            i64::try_from(*number).map(Number::Int).map_err(|_| format!("{function}: {number} is too large"))
        }
        Value::Float(number) => Ok(Number::Float(*number)),
        other => {
            let shown = match other {
                Value::Text(text) => literal::quoted(text),
                other => format::plain(other),
            };
            Err(format!("{function}: unknown type for {shown} ({})", other.type_name()))
        }
    }
}

/// Applies an operation to two numbers: a whole result only for whole numbers. The first one is the one that a pipeline
/// does not bring.
fn arithmetic(
    function: &str,
    args: &[Value],
    whole: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
) -> Result<Value, String> {
    let [a, b] = args else { return Err(format!("{function}: two numbers are needed")) };
    Ok(match (number(function, a)?, number(function, b)?) {
        (Number::Int(a), Number::Int(b)) => {
            Value::Int(whole(a, b).ok_or_else(|| format!("{function}: the result is too large"))?)
        }
        (Number::Int(a), Number::Float(b)) => Value::Float(float(a as f64, b)),
        (Number::Float(a), Number::Int(b)) => Value::Float(float(a, b as f64)),
        (Number::Float(a), Number::Float(b)) => Value::Float(float(a, b)),
    })
}

fn no_zero(args: &[Value]) -> Result<(), String> {
    match args {
        [Value::Int(0) | Value::Uint(0), Value::Int(_) | Value::Uint(_)] => {
            Err("runtime error: integer divide by zero".to_owned())
        }
        _ => Ok(()),
    }
}

fn parse_bool(args: &[Value]) -> Result<Value, String> {
    match arg(args, 0) {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        other => Err(invalid("parseBool", "ParseBool", other)),
    }
}

fn parse_float(args: &[Value]) -> Result<Value, String> {
    let text = arg(args, 0);
    if text.is_empty() {
        return Ok(Value::Float(0.0));
    }
    text.parse().map(Value::Float).map_err(|_| invalid("parseFloat", "ParseFloat", text))
}

fn invalid(function: &str, go: &str, text: &str) -> String {
    format!("{function}: strconv.{go}: parsing {}: invalid syntax", literal::quoted(text))
}

fn parsed(
    function: &str,
    go: &str,
    text: &str,
    number: Result<Value, std::num::ParseIntError>,
) -> Result<Value, String> {
    use std::num::IntErrorKind;
    number.map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
            format!("{function}: strconv.{go}: parsing {}: value out of range", literal::quoted(text))
        }
        _ => invalid(function, go, text),
    })
}
