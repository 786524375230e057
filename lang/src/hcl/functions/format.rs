//! `format` and `formatlist`: verbs, flags, widths and argument indexes.

use super::encoding::write_json;
use super::text::letters;
use super::{Called, Failure, Function, Takes, fail, text_of, variadic};
use crate::hcl::convert::{Type, convert};
use crate::hcl::value::{Number, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("format", &[("format", Takes::Text)], ("args", Takes::Nullable), |given| {
        formatted(text_of(given, 0), given.get(1..).unwrap_or_default()).map(Value::Text)
    }),
    variadic("formatlist", &[("format", Takes::Text)], ("args", Takes::Nullable), format_list),
];

/// Largest field width of a verb.
const WIDTH_MAX: usize = 1024;

/// One verb with its flags, width and precision.
#[derive(Default)]
struct Verb {
    plus: bool,
    minus: bool,
    space: bool,
    zero: bool,
    sharp: bool,
    width: Option<usize>,
    precision: Option<usize>,
    letter: char,
    /// The verb as written.
    text: String,
    offset: usize,
}

fn format_list(given: &[Value]) -> Called {
    let arguments = given.get(1..).unwrap_or_default();
    let mut length = None;
    for (at, argument) in arguments.iter().enumerate() {
        let Value::Sequence(_, items) = argument else { continue };
        match length {
            Some(known) if known != items.len() => {
                let reason = format!(
                    "argument {} has length {}, which is inconsistent with argument 1 of length {known}",
                    at + 1,
                    items.len()
                );
                return Err(Failure::Argument(at + 1, reason));
            }
            _ => length = Some(items.len()),
        }
    }
    let mut lines = Vec::new();
    for row in 0..length.unwrap_or(1) {
        let of_row: Vec<Value> = arguments
            .iter()
            .map(|argument| match argument {
                Value::Sequence(_, items) => items.get(row).cloned().unwrap_or(Value::Null),
                single => single.clone(),
            })
            .collect();
        let line = formatted(text_of(given, 0), &of_row).map_err(|failure| {
            let (Failure::Argument(_, reason) | Failure::Call(reason)) = failure;
            Failure::Call(format!("error on format iteration {row}: {reason}"))
        })?;
        lines.push(Value::Text(line));
    }
    Ok(Value::list(lines))
}

fn formatted(format: &str, arguments: &[Value]) -> Result<String, Failure> {
    let mut output = String::new();
    let mut rest = format;
    let mut next = 0;
    let mut highest = 0;
    while let Some(at) = rest.find('%') {
        output.push_str(&rest[..at]);
        let offset = format.len() - rest.len() + at;
        let (verb, index, length) = parse_verb(&rest[at..], offset)?;
        rest = &rest[at + length..];
        if verb.letter == '%' {
            output.push('%');
            continue;
        }
        let place = match index {
            Some(index) => index - 1,
            None => next,
        };
        next = place + 1;
        highest = highest.max(next);
        let Some(argument) = arguments.get(place) else {
            let total = arguments.len();
            return fail(format!(
                "not enough arguments for {:?} at {}: need index {} but have {total} total",
                verb.text,
                verb.offset,
                place + 1
            ));
        };
        output.push_str(&shown(&verb, argument)?);
    }
    output.push_str(rest);
    if highest < arguments.len() {
        let reason = match highest {
            0 => "too many arguments; no verbs in format string".to_string(),
            used => format!("too many arguments; only {used} used by format string"),
        };
        return Err(Failure::Argument(highest + 1, reason));
    }
    Ok(output)
}

/// Parses a verb. Returns the verb, its explicit argument number, and its length in bytes.
fn parse_verb(text: &str, offset: usize) -> Result<(Verb, Option<usize>, usize), Failure> {
    let mut verb = Verb { offset, ..Verb::default() };
    let mut letters = text.char_indices().skip(1).peekable();
    let mut index = None;
    while let Some((_, flag)) = letters.next_if(|(_, letter)| matches!(letter, '+' | '-' | ' ' | '0' | '#')) {
        match flag {
            '+' => verb.plus = true,
            '-' => verb.minus = true,
            ' ' => verb.space = true,
            '0' => verb.zero = true,
            _ => verb.sharp = true,
        }
    }
    let number = |letters: &mut std::iter::Peekable<std::iter::Skip<std::str::CharIndices<'_>>>| -> Option<usize> {
        let mut value: Option<usize> = None;
        while let Some((_, digit)) = letters.next_if(|(_, letter)| letter.is_ascii_digit()) {
            let digit = digit.to_digit(10).unwrap_or(0) as usize;
            value = Some(value.unwrap_or(0).saturating_mul(10).saturating_add(digit).min(WIDTH_MAX));
        }
        value
    };
    verb.width = number(&mut letters);
    if letters.next_if(|(_, letter)| *letter == '.').is_some() {
        verb.precision = Some(number(&mut letters).unwrap_or(0));
    }
    if letters.next_if(|(_, letter)| *letter == '[').is_some() {
        if let Some((at, '0')) = letters.peek().copied() {
            return fail(format!("unrecognized format character '0' at offset {}", offset + at));
        }
        index = number(&mut letters);
        match (index, letters.next()) {
            (Some(_), Some((_, ']'))) => {}
            (_, Some((at, other))) => {
                return fail(format!("unrecognized format character {other:?} at offset {}", offset + at));
            }
            (_, None) => return fail(format!("invalid format string starting at offset {}", offset + 1)),
        }
    }
    let Some((at, letter)) = letters.next() else {
        return fail(format!("invalid format string starting at offset {}", offset + 1));
    };
    if !letter.is_ascii_alphabetic() && letter != '%' {
        return fail(format!("unrecognized format character {letter:?} at offset {}", offset + at));
    }
    let length = at + letter.len_utf8();
    verb.letter = letter;
    verb.text = text[..length].to_string();
    Ok((verb, index, length))
}

fn shown(verb: &Verb, argument: &Value) -> Result<String, Failure> {
    if verb.letter != 'v' && *argument == Value::Null {
        return unsupported(verb, "null value cannot be formatted");
    }
    match verb.letter {
        'v' if verb.sharp => Ok(pad(verb, json(argument), false)),
        'v' => {
            let text = match argument {
                Value::Text(text) => text.clone(),
                Value::Number(Number::Float(float)) => shortest(*float),
                Value::Number(number) if number.as_f64().abs() >= 1e21 => shortest(number.as_f64()),
                other => json(other),
            };
            Ok(pad(verb, text, matches!(argument, Value::Number(_))))
        }
        't' => match as_type(verb, argument, &Type::Bool)? {
            Value::Bool(truth) => Ok(pad(verb, truth.to_string(), false)),
            _ => unsupported(verb, "a bool is required"),
        },
        's' | 'q' => match as_type(verb, argument, &Type::Text)? {
            Value::Text(text) => {
                let cut = match verb.precision {
                    Some(precision) => letters(&text).into_iter().take(precision).collect(),
                    None => text,
                };
                Ok(pad(verb, if verb.letter == 'q' { format!("{cut:?}") } else { cut }, false))
            }
            _ => unsupported(verb, "a string is required"),
        },
        'b' | 'o' | 'd' | 'x' | 'X' => integer(verb, argument),
        'e' | 'E' | 'f' | 'g' | 'G' => match as_type(verb, argument, &Type::Number)? {
            Value::Number(number) => Ok(pad(verb, signed(verb, float(verb, number.as_f64())), true)),
            _ => unsupported(verb, "a number is required"),
        },
        other => fail(format!("unsupported format verb {other:?} in {:?} at offset {}", verb.text, verb.offset)),
    }
}

fn unsupported<T>(verb: &Verb, reason: &str) -> Result<T, Failure> {
    fail(format!("unsupported value for {:?} at {}: {reason}", verb.text, verb.offset))
}

fn as_type(verb: &Verb, argument: &Value, wanted: &Type) -> Result<Value, Failure> {
    convert(argument, wanted).or_else(|reason| unsupported(verb, &reason))
}

fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, &mut text);
    text
}

fn integer(verb: &Verb, argument: &Value) -> Result<String, Failure> {
    let Value::Number(number) = as_type(verb, argument, &Type::Number)? else {
        return unsupported(verb, "a number is required");
    };
    let Some(integer) = number.as_integer() else { return unsupported(verb, "an integer is required") };
    let magnitude = integer.unsigned_abs();
    let digits = match verb.letter {
        'b' => format!("{magnitude:b}"),
        'o' => format!("{magnitude:o}"),
        'x' => format!("{magnitude:x}"),
        'X' => format!("{magnitude:X}"),
        _ => magnitude.to_string(),
    };
    let sign = if integer < 0 { "-" } else { "" };
    Ok(pad(verb, signed(verb, format!("{sign}{digits}")), true))
}

/// Adds the sign that the flags ask for.
fn signed(verb: &Verb, number: String) -> String {
    if number.starts_with(['-', '+']) {
        return number;
    }
    match (verb.plus, verb.space) {
        (true, _) => format!("+{number}"),
        (false, true) => format!(" {number}"),
        (false, false) => number,
    }
}

fn float(verb: &Verb, number: f64) -> String {
    match verb.letter {
        'f' => format!("{number:.*}", verb.precision.unwrap_or(6)),
        'e' => exponential(number, verb.precision.unwrap_or(6)),
        'E' => exponential(number, verb.precision.unwrap_or(6)).to_uppercase(),
        'G' => general(number, verb.precision).to_uppercase(),
        _ => general(number, verb.precision),
    }
}

/// `1.5e+03`: with a sign and at least two digits in the exponent.
fn exponential(number: f64, places: usize) -> String {
    with_exponent(&format!("{number:.places$e}"))
}

fn with_exponent(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text.to_string(),
    }
}

/// The shortest digits that identify the number; with an exponent if it is very large or very small.
fn shortest(number: f64) -> String {
    general(number, None)
}

fn general(number: f64, precision: Option<usize>) -> String {
    if !number.is_finite() {
        return Number::Float(number).to_string();
    }
    let scientific = match precision {
        Some(precision) => format!("{number:.*e}", precision.max(1) - 1),
        None => format!("{number:e}"),
    };
    let exponent: i32 = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let limit = precision.map_or(21, |precision| i32::try_from(precision.max(1)).unwrap_or(i32::MAX));
    if exponent < -4 || exponent >= limit {
        let (mantissa, tail) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let mantissa =
            if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
        return with_exponent(&format!("{mantissa}e{tail}"));
    }
    let Some(precision) = precision else { return number.to_string() };
    let places = usize::try_from(i32::try_from(precision.max(1)).unwrap_or(i32::MAX) - 1 - exponent).unwrap_or(0);
    let fixed = format!("{number:.places$}");
    if fixed.contains('.') { fixed.trim_end_matches('0').trim_end_matches('.').to_string() } else { fixed }
}

/// Pads to the width: on the right, on the left, or with zeros after the sign of a number.
fn pad(verb: &Verb, text: String, number: bool) -> String {
    let width = verb.width.unwrap_or(0);
    let missing = width.saturating_sub(letters(&text).len());
    if missing == 0 {
        return text;
    }
    if verb.minus {
        return format!("{text}{}", " ".repeat(missing));
    }
    if verb.zero && number {
        let (sign, digits) = match text.strip_prefix(['-', '+', ' ']) {
            Some(digits) => text.split_at(text.len() - digits.len()),
            None => ("", text.as_str()),
        };
        return format!("{sign}{}{digits}", "0".repeat(missing));
    }
    format!("{}{text}", " ".repeat(missing))
}
