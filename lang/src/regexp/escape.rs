//! Characters: escape sequences that stand for one, and how one is written for the `regex` crate.

use super::source::Source;
use super::{Error, Mistake};

/// Digits of an octal escape.
const OCTAL_DIGITS_MAX: usize = 3;

/// Reads an escape sequence of one character, from its backslash on. The value may be a surrogate, which no text has.
pub fn read(source: &mut Source<'_>) -> Result<u32, Error> {
    let from = source.at();
    source.next();
    let invalid = |source: &Source<'_>| Err(Error::new(Mistake::Escape, source.since(from)));
    let Some(letter) = source.next() else { return Err(Error::new(Mistake::TrailingBackslash, "")) };
    Ok(match letter {
        'a' => 0x07,
        'f' => 0x0c,
        'n' => 0x0a,
        'r' => 0x0d,
        't' => 0x09,
        'v' => 0x0b,
        'x' => match hexadecimal(source) {
            Some(value) => value,
            None => return invalid(source),
        },
        '0'..='7' => {
            let first = source.at() - 1;
            while source.at() - first < OCTAL_DIGITS_MAX && source.peek().is_some_and(|next| next.is_digit(8)) {
                source.next();
            }
            // A digit alone would be a reference to a group, which RE2 does not have.
            if letter != '0' && source.at() - first == 1 {
                return invalid(source);
            }
            source.since(first).chars().filter_map(|digit| digit.to_digit(8)).fold(0, |value, digit| value * 8 + digit)
        }
        _ if letter.is_ascii() && !letter.is_ascii_alphanumeric() => u32::from(letter),
        _ => return invalid(source),
    })
}

/// Reads `41` or `{1F600}`. On `None` the source is where Go's error text ends.
fn hexadecimal(source: &mut Source<'_>) -> Option<u32> {
    if !source.eat("{") {
        let (high, low) = (source.next()?, source.next()?);
        return Some(high.to_digit(16)? * 16 + low.to_digit(16)?);
    }
    let mut value = source.next()?.to_digit(16)?;
    loop {
        match source.next()? {
            '}' => return Some(value),
            digit => value = value * 16 + digit.to_digit(16)?,
        }
        if value > u32::from(char::MAX) {
            return None;
        }
    }
}

/// Writes a character so that it stands for itself, inside and outside of brackets.
pub fn write(out: &mut String, letter: char) {
    if letter.is_ascii_punctuation() && !matches!(letter, '<' | '>') {
        out.push('\\');
    }
    out.push(letter);
}
