//! Durations in Go's notation: `1h30m0s`, `150ms`. A duration is a number of nanoseconds.

#[cfg(test)]
mod tests;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Magnitude of the smallest duration in nanoseconds, one more than that of the largest.
const MAGNITUDE_MAX: u64 = 1 << 63;

/// A text that is not a duration; displays as Go's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not of the form number and unit, or out of range.
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    /// An unknown unit.
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    UnknownUnit {
        /// The text in place of the unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// Parses a signed sequence of decimal numbers with units. Returns nanoseconds.
pub fn parse(text: &str) -> Result<i64, Error> {
    let invalid = || Error::Invalid(text.to_string());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = one_part(text, rest)?;
        total = total.checked_add(part).filter(|sum| *sum <= MAGNITUDE_MAX).ok_or_else(invalid)?;
        rest = after;
    }
    if negative {
        return Ok(0i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// Parses one number with its unit. Returns its nanoseconds and the rest of the text.
fn one_part<'a>(text: &str, rest: &'a str) -> Result<(u64, &'a str), Error> {
    let invalid = || Error::Invalid(text.to_string());
    let (whole, after) = digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let number: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    if number > MAGNITUDE_MAX {
        return Err(invalid());
    }
    let end = after.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(after.len());
    let (name, after) = after.split_at(end);
    if name.is_empty() {
        return Err(Error::MissingUnit(text.to_string()));
    }
    let unit = unit(name).ok_or_else(|| Error::UnknownUnit { unit: name.to_string(), text: text.to_string() })?;
    let nanos = number.checked_mul(unit).filter(|nanos| *nanos <= MAGNITUDE_MAX).ok_or_else(invalid)?;
    let nanos =
        nanos.checked_add(part_of(fraction, unit)).filter(|nanos| *nanos <= MAGNITUDE_MAX).ok_or_else(invalid)?;
    Ok((nanos, after))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn unit(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        // The micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// `.fraction` of a unit, truncated to nanoseconds. Digits too small for a nanosecond are ignored.
fn part_of(fraction: &str, unit: u64) -> u64 {
    let mut value: u64 = 0;
    let mut scale: f64 = 1.0;
    for digit in fraction.bytes() {
        if value > (MAGNITUDE_MAX - 1) / 10 {
            break;
        }
        let next = value * 10 + u64::from(digit - b'0');
        if next > MAGNITUDE_MAX {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    // In floating point and in this order, as in the reference, so that the last nanosecond agrees.
    (value as f64 * (unit as f64 / scale)) as u64
}

/// Formats nanoseconds as Go does: the largest unit first, seconds with their fraction last.
#[must_use]
pub fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    if magnitude == 0 {
        return "0s".to_string();
    }
    if magnitude < SECOND {
        let (unit, name) = match magnitude {
            0..MICROSECOND => (1, "ns"),
            MICROSECOND..MILLISECOND => (MICROSECOND, "\u{b5}s"),
            _ => (MILLISECOND, "ms"),
        };
        return format!("{sign}{}{name}", decimal(magnitude, unit));
    }
    let (hours, minutes) = (magnitude / HOUR, magnitude % HOUR / MINUTE);
    let seconds = decimal(magnitude % MINUTE, SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// `magnitude / unit` with all its decimal places and no trailing zeros.
fn decimal(magnitude: u64, unit: u64) -> String {
    let (whole, part) = (magnitude / unit, magnitude % unit);
    if part == 0 {
        return whole.to_string();
    }
    let places = unit.ilog10() as usize;
    let fraction = format!("{part:0places$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// Quotes as Go's `time` package does: bytes outside printable ASCII as `\xNN`.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            0x20..=0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}
