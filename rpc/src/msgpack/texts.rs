//! Values that are texts in JSON and have a form of their own in the dialect.

use songline_model::{Blob, Time};

use super::time::to_go;
use super::write;

/// Writes a time from its RFC 3339 text. Returns whether the text is a time.
pub(super) fn time(out: &mut Vec<u8>, text: &str) -> bool {
    let parsed = Time::parse(text);
    if let Some(time) = parsed {
        write::raw(out, &to_go(time.nanos()));
    }
    parsed.is_some()
}

/// Writes bytes from base64. Returns whether the text is base64.
pub(super) fn bytes(out: &mut Vec<u8>, text: &str) -> bool {
    let decoded = Blob::from_base64(text);
    if let Ok(bytes) = &decoded {
        write::raw(out, &bytes.0);
    }
    decoded.is_ok()
}

/// Writes a duration from its text. Returns whether the text is a duration.
pub(super) fn span(out: &mut Vec<u8>, text: &str) -> bool {
    let nanos = nanos_of(text);
    if let Some(nanos) = nanos {
        write::int(out, nanos);
    }
    nanos.is_some()
}

/// Nanoseconds of a duration in Go's notation, such as `1h30m0s` or `1.5s`. The empty text is the zero duration.
fn nanos_of(text: &str) -> Option<i64> {
    let (sign, mut rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, more) = rest.split_at(unit_at);
        let end = more.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(more.len());
        let (unit, after) = more.split_at(end);
        nanos += scaled(number, size_of(unit)?)?;
        rest = after;
    }
    i64::try_from(sign * nanos).ok()
}

/// Length of a unit in nanoseconds.
fn size_of(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A decimal number times `size`, cut to whole nanoseconds.
fn scaled(number: &str, size: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut nanos = whole.parse::<u32>().ok().map(i128::from)? * size;
    let mut place = size;
    for digit in fraction.chars() {
        place /= 10;
        nanos += i128::from(digit.to_digit(10)?) * place;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use songline_model::Dur;

    use super::nanos_of;

    #[test]
    fn every_printed_duration_is_read_again() {
        for nanos in [0, 1, 1_500, 250_000_000, 1_500_000_000, 90_000_000_000, 5_400_000_000_000, -3_600_000_000_001] {
            assert_eq!(nanos_of(&Dur(nanos).to_string()), Some(nanos), "{}", Dur(nanos));
        }
        assert_eq!(nanos_of(""), Some(0));
        for text in ["x", "1", "1x", "h", "1.2.3s"] {
            assert_eq!(nanos_of(text), None, "{text}");
        }
    }
}
