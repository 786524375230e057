//! Literals of Go: numbers, characters and quoted texts, read and written.

use std::fmt::Write as _;

use super::node::Number;
use super::value::text_of_bytes;

/// Length in bytes of the number at the start of a text.
pub(super) fn number_bytes(text: &str) -> usize {
    let skip = |at: usize, set: &str| {
        text[at..].find(|letter: char| !set.contains(letter)).map_or(text.len(), |found| at + found)
    };
    let mut at = usize::from(text.starts_with(['+', '-']));
    let lower = text[at..].get(..2).unwrap_or_default().to_ascii_lowercase();
    let digits = match lower.as_str() {
        "0x" => "0123456789abcdefABCDEF_",
        "0o" => "01234567_",
        "0b" => "01_",
        _ => "0123456789_",
    };
    if matches!(lower.as_str(), "0x" | "0o" | "0b") {
        at += 2;
    }
    at = skip(at, digits);
    if text[at..].starts_with('.') {
        at = skip(at + 1, digits);
    }
    let exponent = if lower == "0x" { ['p', 'P'] } else { ['e', 'E'] };
    if !matches!(lower.as_str(), "0o" | "0b") && text[at..].starts_with(exponent) {
        at += 1;
        if text[at..].starts_with(['+', '-']) {
            at += 1;
        }
        at = skip(at, "0123456789_");
    }
    at
}

/// Reads a number or a character.
pub(super) fn number(spelled: &str, is_char: bool) -> Result<Number, String> {
    let mut number = Number { spelled: spelled.to_owned(), is_char, int: None, uint: None, float: None };
    if is_char {
        let body = spelled.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        let text = body.and_then(|body| unescape(body, '\''));
        let mut letters = text.as_deref().unwrap_or_default().chars();
        let (Some(letter), None) = (letters.next(), letters.next()) else {
            return Err(format!("malformed character constant: {spelled}"));
        };
        let code = u32::from(letter);
        (number.int, number.uint, number.float) = (Some(code.into()), Some(code.into()), Some(code.into()));
        return Ok(number);
    }
    let (negative, digits) = match spelled.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, spelled.strip_prefix('+').unwrap_or(spelled)),
    };
    let whole = whole(digits);
    number.uint = whole.and_then(|whole| u64::try_from(whole).ok()).filter(|_| !spelled.starts_with(['+', '-']));
    number.int = whole.and_then(|whole| {
        let whole = i128::try_from(whole).ok()?;
        i64::try_from(if negative { -whole } else { whole }).ok()
    });
    if let Some(int) = number.int {
        number.float = Some(int as f64);
    } else if let Some(uint) = number.uint {
        number.float = Some(uint as f64);
    } else if let Some(float) = float(digits).filter(|float| float.is_finite()) {
        let float = if negative { -float } else { float };
        // A whole number without a point or exponent that no integer holds.
        if !spelled.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", quoted(spelled)));
        }
        number.float = Some(float);
        if float.fract() == 0.0 && float.abs() < 9e18 {
            number.int = Some(float as i64);
            number.uint = (float >= 0.0).then_some(float as u64);
        }
    }
    if number.float.is_none() {
        return Err(format!("illegal number syntax: {}", quoted(spelled)));
    }
    Ok(number)
}

fn whole(digits: &str) -> Option<u128> {
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    u128::from_str_radix(&digits.replace('_', ""), base).ok().filter(|_| !digits.starts_with(['+', '-']))
}

fn float(digits: &str) -> Option<f64> {
    let lower = digits.to_ascii_lowercase().replace('_', "");
    let Some(hex) = lower.strip_prefix("0x") else { return lower.parse().ok() };
    let (mantissa, exponent) = hex.split_once('p')?;
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = u64::from_str_radix(&format!("{whole}{part}"), 16).ok()?;
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(4 * part.len()).ok()?)?;
    Some(digits as f64 * 2f64.powi(exponent))
}

/// Value of a quoted or raw text; `None` if an escape is invalid.
pub(super) fn unquoted(spelled: &str) -> Option<String> {
    if let Some(raw) = spelled.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', ""));
    }
    unescape(spelled.strip_prefix('"')?.strip_suffix('"')?, '"')
}

fn unescape(body: &str, quote: char) -> Option<String> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        if letter == quote || letter == '\n' {
            return None;
        }
        if letter != '\\' {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next()?;
        let digits = |from: usize, count: usize, base: u32| {
            let digits = rest.get(from..from + count)?;
            u32::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with('+'))
        };
        let mut length = 1;
        match escape {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            '\\' => bytes.push(b'\\'),
            _ if escape == quote => bytes.push(u8::try_from(quote).ok()?),
            'x' => {
                bytes.push(u8::try_from(digits(1, 2, 16)?).ok()?);
                length = 3;
            }
            'u' | 'U' => {
                let count = if escape == 'u' { 4 } else { 8 };
                let letter = char::from_u32(digits(1, count, 16)?)?;
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                length = 1 + count;
            }
            '0'..='7' => {
                bytes.push(u8::try_from(digits(0, 3, 8)?).ok()?);
                length = 3;
            }
            _ => return None,
        }
        rest = rest.get(length..)?;
    }
    Some(text_of_bytes(&bytes))
}

/// A text in double quotes, as Go's `%q` writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        let mut raw = [0; 4];
        let bytes = super::value::bytes_of_text(letter.encode_utf8(&mut raw));
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            _ if bytes.len() == 1 && !(b' '..0x7f).contains(&bytes[0]) => {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\x{:02x}", bytes[0]);
            }
            _ if letter.is_control() || letter == '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}
