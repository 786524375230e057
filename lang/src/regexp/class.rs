//! Character classes: `[..]`, `\d`, `\pN`, `\p{Greek}`, `[:alpha:]`. The result is the text of items between the
//! brackets of a class of the `regex` crate; empty for a class that no character belongs to.

use super::source::Source;
use super::{Error, Mistake, escape, unicode};

/// Every character.
const ALL: &str = r"\x{0}-\x{10FFFF}";

/// Surrogates: Go accepts them in classes, the `regex` crate does not, and no text has them.
const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;

/// A class, whose items may be empty.
pub fn with_brackets(items: &str, negated: bool) -> String {
    match (items.is_empty(), negated) {
        (true, false) => format!("[^{ALL}]"),
        (true, true) => format!("[{ALL}]"),
        (false, false) => format!("[{items}]"),
        (false, true) => format!("[^{items}]"),
    }
}

/// Reads an escape sequence that is a class. `None`, and nothing is read, if it is no class.
pub fn escaped(source: &mut Source<'_>) -> Result<Option<String>, Error> {
    let mut ahead = *source;
    ahead.next();
    let items = match ahead.next() {
        Some('d') => "0-9".to_owned(),
        Some('D') => "[^0-9]".to_owned(),
        Some('s') => r"\t\n\x0C\r\x20".to_owned(),
        Some('S') => r"[^\t\n\x0C\r\x20]".to_owned(),
        Some('w') => "0-9A-Za-z_".to_owned(),
        Some('W') => "[^0-9A-Za-z_]".to_owned(),
        Some('p') => property(&mut ahead, source.at(), false)?,
        Some('P') => property(&mut ahead, source.at(), true)?,
        _ => return Ok(None),
    };
    *source = ahead;
    Ok(Some(items))
}

/// Reads the name of a Unicode class: one letter, or a name in braces. `from` is the place of the backslash.
fn property(source: &mut Source<'_>, from: usize, negated: bool) -> Result<String, Error> {
    let at = source.at();
    let name = if source.peek() == Some('{') {
        match source.through("}") {
            Some(braced) => &braced[1..braced.len() - 1],
            None => {
                source.finish();
                ""
            }
        }
    } else {
        source.next();
        source.since(at)
    };
    let (name, negated) = match name.strip_prefix('^') {
        Some(bare) => (bare, !negated),
        None => (name, negated),
    };
    unicode::items(name, negated).ok_or_else(|| Error::new(Mistake::CharRange, source.since(from)))
}

/// Reads a class in brackets.
pub fn bracketed(source: &mut Source<'_>) -> Result<String, Error> {
    let opening = *source;
    let unclosed = || Error::new(Mistake::MissingBracket, opening.rest());
    source.next();
    let negated = source.eat("^");
    let mut items = String::new();
    let mut first = true;
    loop {
        match source.peek() {
            None => return Err(unclosed()),
            // A bracket right after the opening one is an ordinary character.
            Some(']') if !first => break,
            Some('\\') => match escaped(source)? {
                Some(class) => items.push_str(&class),
                None => range(source, &mut items, unclosed)?,
            },
            Some('[') => match named(source)? {
                Some(class) => items.push_str(&class),
                None => range(source, &mut items, unclosed)?,
            },
            Some(_) => range(source, &mut items, unclosed)?,
        }
        first = false;
    }
    source.next();
    Ok(with_brackets(&items, negated))
}

/// Reads one character, or a range of them.
fn range(source: &mut Source<'_>, items: &mut String, unclosed: impl Fn() -> Error) -> Result<(), Error> {
    let from = source.at();
    let low = character(source)?.ok_or_else(&unclosed)?;
    let rest = source.rest();
    let high = if rest.starts_with('-') && !rest.starts_with("-]") {
        source.next();
        character(source)?.ok_or_else(&unclosed)?
    } else {
        low
    };
    if high < low {
        return Err(Error::new(Mistake::CharRange, source.since(from)));
    }
    let low = if SURROGATES.contains(&low) { SURROGATES.end() + 1 } else { low };
    let high = if SURROGATES.contains(&high) { SURROGATES.start() - 1 } else { high };
    if let (Some(low), Some(high)) = (char::from_u32(low), char::from_u32(high))
        && low <= high
    {
        escape::write(items, low);
        items.push('-');
        escape::write(items, high);
    }
    Ok(())
}

/// Reads one character of a class, escaped or not.
fn character(source: &mut Source<'_>) -> Result<Option<u32>, Error> {
    if source.peek() == Some('\\') { escape::read(source).map(Some) } else { Ok(source.next().map(u32::from)) }
}

/// Reads `[:name:]`. `None`, and nothing is read, if there is no `:]` anywhere after a `[:`.
fn named(source: &mut Source<'_>) -> Result<Option<String>, Error> {
    let mut ahead = *source;
    if !ahead.eat("[:") {
        return Ok(None);
    }
    let Some(name) = ahead.through_class_end().and_then(|name| name.strip_suffix(":]")) else { return Ok(None) };
    let bare = name.strip_prefix('^');
    let Some(items) = ascii(bare.unwrap_or(name)) else {
        return Err(Error::new(Mistake::CharRange, ahead.since(source.at())));
    };
    *source = ahead;
    Ok(Some(if bare.is_some() { format!("[^{items}]") } else { items.to_owned() }))
}

/// Items of a named ASCII class.
fn ascii(name: &str) -> Option<&'static str> {
    Some(match name {
        "alnum" => "0-9A-Za-z",
        "alpha" => "A-Za-z",
        "ascii" => r"\x00-\x7F",
        "blank" => r"\t\x20",
        "cntrl" => r"\x00-\x1F\x7F",
        "digit" => "0-9",
        "graph" => "!-~",
        "lower" => "a-z",
        "print" => r"\x20-\x7E",
        "punct" => "!-/:-@\\[-`{-~",
        "space" => r"\t\n\x0B\x0C\r\x20",
        "upper" => "A-Z",
        "word" => "0-9A-Za-z_",
        "xdigit" => "0-9A-Fa-f",
        _ => return None,
    })
}
