//! Numbers: integers while they fit, otherwise floating point.

use std::cmp::Ordering;

/// A number of the language.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

/// Bound on integers; above, arithmetic uses floating point, so that nothing overflows.
const INTEGER_MAX: i128 = 1 << 100;

impl From<i128> for Number {
    fn from(number: i128) -> Number {
        Number::Integer(number)
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Number {
        Number::Integer(number as i128)
    }
}

impl From<f64> for Number {
    /// Converts a whole float to an integer.
    fn from(number: f64) -> Number {
        if number.fract() == 0.0 && number.abs() < 1e30 {
            Number::Integer(number as i128)
        } else {
            Number::Float(number)
        }
    }
}

impl Number {
    /// The value of a number token.
    pub(crate) fn parse_literal(text: &str) -> Number {
        Number::parse(text).unwrap_or(Number::Integer(0))
    }

    /// Parses a text as a number.
    pub(crate) fn parse(text: &str) -> Option<Number> {
        if let Ok(integer) = text.parse::<i128>()
            && integer.abs() < INTEGER_MAX
            && !text.starts_with('+')
        {
            return Some(Number::Integer(integer));
        }
        let starts_well =
            text.trim_start_matches(['-', '+']).starts_with(|first: char| first.is_ascii_digit() || first == '.');
        if !starts_well || text.ends_with(['f', 'd', 'y']) {
            return None;
        }
        text.parse::<f64>().ok().map(Number::from)
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }

    /// The value as an integer, if it is one.
    pub(crate) fn as_integer(self) -> Option<i128> {
        match self {
            Number::Integer(integer) => Some(integer),
            Number::Float(_) => None,
        }
    }

    pub(crate) fn add(self, other: Number) -> Number {
        self.combine(other, i128::checked_add, |a, b| a + b)
    }

    pub(crate) fn subtract(self, other: Number) -> Number {
        self.combine(other, i128::checked_sub, |a, b| a - b)
    }

    pub(crate) fn multiply(self, other: Number) -> Number {
        self.combine(other, i128::checked_mul, |a, b| a * b)
    }

    /// Division; by zero the result is infinite, but `None` for zero by zero.
    pub(crate) fn divide(self, other: Number) -> Option<Number> {
        if let (Number::Integer(a), Number::Integer(b)) = (self, other)
            && b != 0
            && a % b == 0
        {
            return Some(Number::Integer(a / b));
        }
        let quotient = self.as_f64() / other.as_f64();
        (!quotient.is_nan()).then(|| rounded(quotient))
    }

    /// The remainder, with the sign of the dividend; `None` if it is undefined. As in the reference, the remainder of a
    /// division by zero is the dividend, and with an infinite operand it is the product.
    pub(crate) fn modulo(self, other: Number) -> Option<Number> {
        if self.as_f64().is_infinite() || other.as_f64().is_infinite() {
            let product = self.as_f64() * other.as_f64();
            return (!product.is_nan()).then(|| Number::from(product));
        }
        match (self, other) {
            (dividend, Number::Integer(0)) => Some(dividend),
            (Number::Integer(a), Number::Integer(b)) => Some(Number::Integer(a % b)),
            (a, b) => {
                let remainder = a.as_f64() % b.as_f64();
                (!remainder.is_nan()).then(|| rounded(remainder))
            }
        }
    }

    pub(crate) fn negate(self) -> Number {
        match self {
            Number::Integer(integer) => Number::Integer(-integer),
            Number::Float(float) => Number::Float(-float),
        }
    }

    pub(crate) fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => a.cmp(&b),
            (a, b) => a.as_f64().total_cmp(&b.as_f64()),
        }
    }

    fn combine(self, other: Number, exact: fn(i128, i128) -> Option<i128>, float: fn(f64, f64) -> f64) -> Number {
        if let (Number::Integer(a), Number::Integer(b)) = (self, other)
            && let Some(result) = exact(a, b)
            && result.abs() < INTEGER_MAX
        {
            return Number::Integer(result);
        }
        rounded(float(self.as_f64(), other.as_f64()))
    }
}

/// Rounds off the error of binary fractions: 0.1 + 0.2 is 0.3.
fn rounded(float: f64) -> Number {
    if !float.is_finite() {
        return Number::Float(float);
    }
    let near = format!("{float:.14e}").parse::<f64>().unwrap_or(float);
    let noise = (near - float).abs() <= float.abs() * 4.5e-16;
    Number::from(if noise { near } else { float })
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(integer) => write!(f, "{integer}"),
            Number::Float(float) if float.is_infinite() => f.write_str(if *float > 0.0 { "+Inf" } else { "-Inf" }),
            Number::Float(float) => write!(f, "{float}"),
        }
    }
}
