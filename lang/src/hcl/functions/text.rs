//! Functions on text. A character is a grapheme: a base with its marks, an emoji with its parts.

use super::{Called, Failure, Function, Parameter, Takes, fail, integer_of, plain, text_of, variadic};
use crate::hcl::value::{Number, Value};
use crate::regexp;

const TEXT: &[Parameter] = &[("str", Takes::Text)];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("chomp", TEXT, |given| changed(given, |text| text.trim_end_matches(['\r', '\n']).to_string())),
    plain("indent", &[("spaces", Takes::Number), ("str", Takes::Text)], indent),
    variadic("join", &[("separator", Takes::Text)], ("lists", Takes::Texts), join),
    plain("lower", TEXT, |given| changed(given, str::to_lowercase)),
    plain("upper", TEXT, |given| changed(given, upper)),
    plain("regex_replace", &[("str", Takes::Text), ("pattern", Takes::Text), ("replace", Takes::Text)], regex_replace),
    plain("replace", &[("str", Takes::Text), ("substr", Takes::Text), ("replace", Takes::Text)], replace),
    plain("reverse", TEXT, |given| changed(given, reversed)),
    plain("split", &[("separator", Takes::Text), ("str", Takes::Text)], split),
    plain("strlen", TEXT, |given| Ok(Value::Number(Number::from(letters(text_of(given, 0)).len())))),
    plain("strrev", TEXT, |given| changed(given, reversed)),
    plain("substr", &[("str", Takes::Text), ("offset", Takes::Number), ("length", Takes::Number)], substr),
    plain("title", TEXT, |given| changed(given, title)),
    plain("trim", &[("str", Takes::Text), ("cutset", Takes::Text)], |given| {
        let cut: Vec<char> = text_of(given, 1).chars().collect();
        Ok(Value::text(text_of(given, 0).trim_matches(cut.as_slice())))
    }),
    plain("trimprefix", &[("str", Takes::Text), ("prefix", Takes::Text)], |given| {
        let text = text_of(given, 0);
        Ok(Value::text(text.strip_prefix(text_of(given, 1)).unwrap_or(text)))
    }),
    plain("trimspace", TEXT, |given| changed(given, |text| text.trim().to_string())),
    plain("trimsuffix", &[("str", Takes::Text), ("suffix", Takes::Text)], |given| {
        let text = text_of(given, 0);
        Ok(Value::text(text.strip_suffix(text_of(given, 1)).unwrap_or(text)))
    }),
];

/// Longest result in bytes of an operation that inserts text.
const GROWN_BYTES_MAX: usize = 16 << 20;

fn grown(length: usize) -> Result<(), Failure> {
    if length > GROWN_BYTES_MAX { fail(format!("the result is longer than {GROWN_BYTES_MAX} bytes")) } else { Ok(()) }
}

fn changed(given: &[Value], change: fn(&str) -> String) -> Called {
    Ok(Value::Text(change(text_of(given, 0))))
}

/// Converts character by character; one without a single capital stays.
fn upper(text: &str) -> String {
    text.chars()
        .map(|letter| {
            let mut capitals = letter.to_uppercase();
            match (capitals.next(), capitals.next()) {
                (Some(capital), None) => capital,
                _ => letter,
            }
        })
        .collect()
}

fn indent(given: &[Value]) -> Called {
    let Ok(spaces) = usize::try_from(integer_of(given, 0)?) else {
        return fail("the number of spaces must not be negative");
    };
    let text = text_of(given, 1);
    // Bounds the spaces per line; `grown` bounds the whole result.
    const SPACES_MAX: usize = 10_000;
    if spaces > SPACES_MAX {
        return fail(format!("the number of spaces must not exceed {SPACES_MAX}"));
    }
    grown(text.matches('\n').count().saturating_mul(spaces))?;
    Ok(Value::Text(text.replace('\n', &format!("\n{}", " ".repeat(spaces)))))
}

fn join(given: &[Value]) -> Called {
    if given.len() < 2 {
        return fail("at least one list is required");
    }
    let mut parts: Vec<&str> = Vec::new();
    for (at, list) in given.iter().enumerate().skip(1) {
        let Value::Sequence(_, items) = list else { continue };
        for (place, item) in items.iter().enumerate() {
            match item {
                Value::Text(text) => parts.push(text),
                _ => {
                    return Err(Failure::Argument(
                        at,
                        format!("element {place} is null; cannot concatenate null values"),
                    ));
                }
            }
        }
    }
    grown(parts.len().saturating_mul(text_of(given, 0).len()))?;
    Ok(Value::Text(parts.join(text_of(given, 0))))
}

fn regex_replace(given: &[Value]) -> Called {
    let (text, replacement) = (text_of(given, 0), text_of(given, 2));
    match regexp::compile(text_of(given, 1)) {
        Ok(regexp) => {
            let pieces = regexp.find_iter(text).count().saturating_mul(replacement.len());
            let groups = replacement.matches('$').count().saturating_mul(text.len());
            grown(pieces.saturating_add(groups))?;
            Ok(Value::text(regexp.replace_all(text, replacement)))
        }
        Err(error) => fail(error.to_string()),
    }
}

fn replace(given: &[Value]) -> Called {
    let (text, from, to) = (text_of(given, 0), text_of(given, 1), text_of(given, 2));
    grown(text.matches(from).count().saturating_mul(to.len()))?;
    Ok(Value::Text(text.replace(from, to)))
}

fn split(given: &[Value]) -> Called {
    let (separator, text) = (text_of(given, 0), text_of(given, 1));
    let parts: Vec<Value> = if separator.is_empty() {
        text.chars().map(|letter| Value::text(letter.to_string())).collect()
    } else {
        text.split(separator).map(Value::text).collect()
    };
    Ok(Value::list(parts))
}

fn substr(given: &[Value]) -> Called {
    let letters = letters(text_of(given, 0));
    let count = i64::try_from(letters.len()).unwrap_or(i64::MAX);
    let (offset, length) = (integer_of(given, 1)?, integer_of(given, 2)?);
    let start = if offset < 0 { offset.saturating_add(count) } else { offset };
    let end = if length < 0 { count } else { start.saturating_add(length) };
    let within = |at: i64| usize::try_from(at.clamp(0, count)).unwrap_or(0);
    let (start, end) = (within(start), within(end));
    Ok(Value::Text(letters.get(start..end.max(start)).unwrap_or_default().concat()))
}

fn title(text: &str) -> String {
    let mut in_word = false;
    text.chars()
        .map(|letter| {
            let starts = !in_word;
            in_word = letter.is_alphanumeric() || letter == '_' || letter == '\'';
            if starts { letter.to_uppercase().next().unwrap_or(letter) } else { letter }
        })
        .collect()
}

fn reversed(text: &str) -> String {
    letters(text).into_iter().rev().collect()
}

/// Splits a text into graphemes, by the rules that matter in practice: marks, joiners, skin tones, flags.
pub(super) fn letters(text: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    let mut before: Option<char> = None;
    let mut flags = 0usize;
    for (at, letter) in text.char_indices() {
        let is_flag = ('\u{1F1E6}'..='\u{1F1FF}').contains(&letter);
        let joined = match before {
            None => false,
            Some('\u{200D}') => true,
            Some('\r') => letter == '\n',
            Some(_) => extends(letter) || (is_flag && flags % 2 == 1),
        };
        flags = if is_flag { flags + 1 } else { 0 };
        if !joined {
            starts.push(at);
        }
        before = Some(letter);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| &text[start..end]).collect()
}

fn extends(letter: char) -> bool {
    matches!(letter,
        '\u{0300}'..='\u{036F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{FE20}'..='\u{FE2F}' | '\u{200D}' | '\u{1F3FB}'..='\u{1F3FF}')
}
