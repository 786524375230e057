//! Evaluation of an expression on a row: the logic, and the comparison of literals with scalars. `walk.rs` finds the
//! value of a selector.

use serde::Serialize;

use super::syntax::{Binding, Expression, Matching, Selector};
use super::walk::{Datum, Outcome, Probe, Walker};
use super::{EvalError, Plain, PlainFields};

/// Whether the row matches.
pub(super) fn test(expression: &Expression, row: &dyn Datum) -> Result<bool, EvalError> {
    test_in(expression, Place { row, scope: None, unknown: None })
}

/// Whether the row matches whatever the comparisons are that cannot be made on it.
pub(super) fn test_known(expression: &Expression, row: &dyn Datum) -> bool {
    // No error is left: every comparison has a value.
    test_in(expression, Place { row, scope: None, unknown: Some(false) }).unwrap_or(false)
}

/// Adapter that makes a row with plain fields a [`Datum`].
pub(super) struct Fields<'a, R>(pub(super) &'a R);

impl<R: PlainFields> Datum for Fields<'_, R> {
    fn plain(&self, field: &str) -> Option<Scalar<'_>> {
        self.0.plain(field).map(|plain| match plain {
            Plain::Text(text) => Scalar::Text(text),
            Plain::Signed(number) => Scalar::Signed(number),
            Plain::Unsigned(number) => Scalar::Unsigned(number),
            Plain::Bool(truth) => Scalar::Bool(truth),
        })
    }

    fn walk(&self, walker: Walker<'_>) -> Result<Outcome, EvalError> {
        walker.into_value(match walker.root() {
            Some(field) => self.0.whole_for(field),
            None => self.0.whole(),
        })
    }
}

/// Adapter that makes a row and a struct with its derived fields one [`Datum`].
pub(super) struct Beside<'a, T, F> {
    pub(super) row: &'a T,
    pub(super) names: &'a [&'a str],
    pub(super) derived: F,
}

impl<T: Serialize, D: Serialize, F: Fn() -> D> Datum for Beside<'_, T, F> {
    fn walk(&self, walker: Walker<'_>) -> Result<Outcome, EvalError> {
        match walker.root() {
            Some(field) if self.names.contains(&field) => walker.into_value(&(self.derived)()),
            _ => walker.into_value(self.row),
        }
    }
}

/// Context in which selectors are resolved: the row and the bound names.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    row: &'a dyn Datum,
    scope: Option<&'a Scope<'a>>,
    /// Result of a comparison that cannot be made; `None`: the rules of the reference. It is false, and below a `not`
    /// true: then the whole is true only if it is true whatever these comparisons are.
    unknown: Option<bool>,
}

/// One name bound to an element, with the outer bindings.
struct Scope<'a> {
    name: &'a str,
    datum: &'a dyn Datum,
    /// Path of the element in the row, for error texts.
    base: &'a [String],
    outer: Option<&'a Scope<'a>>,
}

fn test_in(expression: &Expression, place: Place<'_>) -> Result<bool, EvalError> {
    match expression {
        Expression::All(parts) => {
            for part in parts {
                if !test_in(part, place)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Expression::Any(parts) => {
            for part in parts {
                if test_in(part, place)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Expression::Not(inner) => {
            Ok(!test_in(inner, Place { unknown: place.unknown.map(|unknown| !unknown), ..place })?)
        }
        Expression::Match { selector, matching, negated } => {
            let truth = match resolve(selector, Probe::Matching(matching), place) {
                Ok(Outcome::Is(truth)) => truth,
                Ok(Outcome::Missing) => match (matching, place.unknown) {
                    (Matching::Empty, _) => true,
                    (Matching::Equal(_) | Matching::In(_) | Matching::Regexp(_), None) => false,
                    (Matching::Equal(_) | Matching::In(_) | Matching::Regexp(_), Some(unknown)) => return Ok(unknown),
                },
                Err(error) => return place.unknown.ok_or(error),
            };
            Ok(truth != *negated)
        }
        Expression::Each { any, selector, binding, inner } => {
            match resolve(selector, Probe::Each { any: *any, binding, inner, place }, place) {
                Ok(Outcome::Is(truth)) => Ok(truth),
                Ok(Outcome::Missing) => Ok(place.unknown.unwrap_or(!any)),
                Err(error) => place.unknown.ok_or(error),
            }
        }
    }
}

fn resolve(selector: &Selector, probe: Probe<'_>, place: Place<'_>) -> Result<Outcome, EvalError> {
    let root = selector.path.first().map(String::as_str).unwrap_or_default();
    let mut scope = place.scope;
    while let Some(bound) = scope {
        if bound.name == root {
            let mut path = bound.base.to_vec();
            path.extend_from_slice(&selector.path[1..]);
            return bound.datum.walk(Walker::new(&path, bound.base.len(), &probe, &selector.text));
        }
        scope = bound.outer;
    }
    if let ([field], Probe::Matching(_)) = (&selector.path[..], &probe)
        && let Some(scalar) = place.row.plain(field)
    {
        return Walker::new(&selector.path, 1, &probe, &selector.text).scalar(scalar);
    }
    place.row.walk(Walker::new(&selector.path, 0, &probe, &selector.text))
}

/// Tests the inner expression of a collection on one element, with the names of `binding` bound.
pub(super) fn test_element(
    binding: &Binding,
    inner: &Expression,
    place: Place<'_>,
    element: Element<'_>,
) -> Result<bool, EvalError> {
    let (first, second) = match binding {
        Binding::One(name) => (Some((name, element.single)), None),
        Binding::Two(first, second) => {
            (first.as_ref().map(|name| (name, element.key)), second.as_ref().map(|name| (name, element.value)))
        }
    };
    let outer = first.map(|(name, datum)| Scope { name, datum, base: element.base, outer: place.scope });
    let scope = outer.as_ref().or(place.scope);
    let inmost = second.map(|(name, datum)| Scope { name, datum, base: element.base, outer: scope });
    test_in(inner, Place { row: place.row, scope: inmost.as_ref().or(scope), unknown: place.unknown })
}

/// One element of a collection, with the parts that names can be bound to.
pub(super) struct Element<'a> {
    /// Value of the name if only one is bound.
    pub(super) single: &'a dyn Datum,
    pub(super) key: &'a dyn Datum,
    pub(super) value: &'a dyn Datum,
    pub(super) base: &'a [String],
}

/// A scalar value that literals can be compared with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar<'a> {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(&'a str),
}

impl Scalar<'_> {
    /// The kind, as Go names it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Scalar::Bool(_) => "bool",
            Scalar::Signed(_) => "int",
            Scalar::Unsigned(_) => "uint64",
            Scalar::Float(_) => "float64",
            Scalar::Text(_) => "string",
        }
    }

    /// Compares after converting the literal to this kind.
    pub(super) fn equals(&self, literal: &str) -> Result<bool, EvalError> {
        match self {
            Scalar::Bool(truth) => Ok(*truth == parse_bool(literal)?),
            Scalar::Signed(number) => {
                Ok(i128::from(*number) == parse_integer("ParseInt", literal, i64::MIN.into(), i64::MAX.into())?)
            }
            Scalar::Unsigned(number) => {
                Ok(i128::from(*number) == parse_integer("ParseUint", literal, 0, u64::MAX.into())?)
            }
            Scalar::Float(number) => Ok(*number == parse_float(literal)?),
            Scalar::Text(text) => Ok(*text == literal),
        }
    }
}

fn refused(function: &str, literal: &str, reason: &str) -> EvalError {
    EvalError::Literal(format!("strconv.{function}: parsing {literal:?}: {reason}"))
}

fn parse_bool(literal: &str) -> Result<bool, EvalError> {
    match literal {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(refused("ParseBool", literal, "invalid syntax")),
    }
}

/// Parses an integer with an optional base prefix, as Go does with base 0.
fn parse_integer(function: &str, literal: &str, min: i128, max: i128) -> Result<i128, EvalError> {
    let syntax = || refused(function, literal, "invalid syntax");
    let (negative, unsigned) = match literal.strip_prefix('-') {
        Some(rest) if min < 0 => (true, rest),
        _ => (false, literal.strip_prefix('+').filter(|_| min < 0).unwrap_or(literal)),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let underscored = digits.contains('_');
    if underscored && (digits.contains("__") || digits.ends_with('_') || (radix == 10 && digits.starts_with('_'))) {
        return Err(syntax());
    }
    let digits = digits.replace('_', "");
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(syntax());
    }
    let magnitude =
        i128::from_str_radix(&digits, radix).map_err(|_| refused(function, literal, "value out of range"))?;
    let number = if negative { -magnitude } else { magnitude };
    if number < min || number > max {
        return Err(refused(function, literal, "value out of range"));
    }
    Ok(number)
}

/// Whether the literal fits every integer type that a field may have.
pub(super) fn is_any_integer(literal: &str) -> bool {
    parse_integer("ParseInt", literal, i64::MIN.into(), i64::MAX.into()).is_ok()
        && parse_integer("ParseUint", literal, 0, u64::MAX.into()).is_ok()
}

fn parse_float(literal: &str) -> Result<f64, EvalError> {
    let plain = literal.replace('_', "");
    match plain.parse::<f64>() {
        Ok(number) if number.is_infinite() && !plain.to_ascii_lowercase().contains("inf") => {
            Err(refused("ParseFloat", literal, "value out of range"))
        }
        Ok(number) => Ok(number),
        Err(_) => Err(refused("ParseFloat", literal, "invalid syntax")),
    }
}
