//! Floating-point numbers as text.

/// The shortest text that reads as the same number. An exponent is used from 10 to the power of `most` on.
pub(in crate::template) fn shortest(number: f64, most: i32) -> String {
    if let Some(special) = special(number) {
        return special.to_owned();
    }
    let (digits, exponent) = parts(&format!("{number:e}"));
    if exponent < -4 || exponent >= most { with_exponent(&digits, exponent) } else { format!("{number}") }
}

/// Not a number, or infinite.
fn special(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        Some("NaN")
    } else if number.is_infinite() {
        Some(if number > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// Mantissa and exponent of a number in scientific notation.
fn parts(scientific: &str) -> (String, i32) {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (digits.to_owned(), exponent.parse().unwrap_or_default())
}

/// Scientific notation with at least two digits of exponent.
fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A number by a verb of `e`, `f` or `g` with a precision.
pub(super) fn formatted(number: f64, letter: char, precision: Option<usize>) -> String {
    if let Some(special) = special(number) {
        return special.to_owned();
    }
    let text = match letter.to_ascii_lowercase() {
        'e' => {
            let (digits, exponent) = parts(&format!("{number:.*e}", precision.unwrap_or(6)));
            with_exponent(&digits, exponent)
        }
        'f' => format!("{number:.*}", precision.unwrap_or(6)),
        _ => match precision {
            None => shortest(number, super::EXPONENT_FROM),
            Some(precision) => general(number, precision.max(1)),
        },
    };
    if letter.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text }
}

/// `%g` with so many significant digits.
fn general(number: f64, precision: usize) -> String {
    let (digits, exponent) = parts(&format!("{number:.*e}", precision - 1));
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let most = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        return with_exponent(&trimmed(&digits), exponent);
    }
    let decimals = usize::try_from(most - 1 - exponent).unwrap_or_default();
    trimmed(&format!("{number:.decimals$}"))
}
