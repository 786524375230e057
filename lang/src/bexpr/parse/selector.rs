//! Selectors and values.

use winnow::Parser;
use winnow::combinator::{alt, opt, peek, repeat};
use winnow::error::ErrMode;
use winnow::token::any;

use super::*;
use crate::bexpr::syntax::Selector;

pub(super) fn identifier(input: &mut Input<'_>) -> Parsed<String> {
    let first = class(LETTER, |letter| letter.is_ascii_alphabetic()).parse_next(input)?;
    let rest = opt(many(WORD, is_word)).parse_next(input)?.unwrap_or_default();
    Ok(format!("{first}{rest}"))
}

pub(super) fn selector(input: &mut Input<'_>) -> Parsed<Selector> {
    alt((dotted, pointer)).parse_next(input)
}

fn dotted(input: &mut Input<'_>) -> Parsed<Selector> {
    let mut path = vec![identifier(input)?];
    let rest: Vec<String> = repeat(
        0..,
        alt((
            (token("."), identifier).map(|(_, name)| name),
            index,
            (token("."), many(DIGIT, |letter| letter.is_ascii_digit())).map(|(_, digits)| digits.to_string()),
        )),
    )
    .parse_next(input)?;
    path.extend(rest);
    Ok(Selector { text: path.join("."), path })
}

fn index(input: &mut Input<'_>) -> Parsed<String> {
    token("[").parse_next(input)?;
    gap(input)?;
    let at = offset(input);
    let name = match string(input) {
        Ok(name) => name,
        Err(ErrMode::Backtrack(_)) => return mistake(input, at, "index", "Invalid index"),
        Err(cut) => return Err(cut),
    };
    gap(input)?;
    let at = offset(input);
    let closed: Parsed<&str> = token("]").parse_next(input);
    if closed.is_err() {
        return mistake(input, at, "index", "Unclosed index expression");
    }
    Ok(name)
}

/// A JSON pointer in double quotes.
fn pointer(input: &mut Input<'_>) -> Parsed<Selector> {
    token("\"").parse_next(input)?;
    let segments: Vec<&str> =
        repeat(0.., (token("/"), many(SEGMENT, is_segment)).map(|(_, segment)| segment)).parse_next(input)?;
    token("\"").parse_next(input)?;
    let text = segments.iter().map(|segment| format!("/{segment}")).collect();
    let path = segments.iter().map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect();
    Ok(Selector { path, text })
}

/// A literal. A bare word, or even a path, is a string.
pub(super) fn value(input: &mut Input<'_>) -> Parsed<String> {
    alt((selector.map(|selector| selector.text), number, string)).parse_next(input)
}

fn number(input: &mut Input<'_>) -> Parsed<String> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let whole = input.input;
    opt(token("-")).parse_next(input)?;
    alt((token("0").void(), (class(NONZERO, |letter| matches!(letter, '1'..='9')), opt(many(DIGIT, is_digit))).void()))
        .parse_next(input)?;
    opt((token("."), many(DIGIT, is_digit))).parse_next(input)?;
    let literal = &whole[..whole.len() - input.input.len()];
    let followed: Parsed<()> = peek(alt((space.void(), end, token(")").void()))).parse_next(input);
    if followed.is_err() {
        let at = offset(input);
        return mistake(input, at, "number", "Invalid number literal");
    }
    Ok(literal.to_string())
}

fn string(input: &mut Input<'_>) -> Parsed<String> {
    let start = offset(input);
    let quote = alt((token("`").value('`'), token("\"").value('"'))).parse_next(input)?;
    let mut body = String::new();
    loop {
        let next: Parsed<char> = any.parse_next(input);
        match next {
            Ok(letter) if letter == quote => break,
            Ok(letter) => body.push(letter),
            Err(_) => {
                let at = offset(input);
                return mistake(input, at, "string", "Unterminated string literal");
            }
        }
    }
    if quote == '`' {
        // Go removes carriage returns from raw strings.
        return Ok(body.replace('\r', ""));
    }
    match unquote(&body) {
        Some(text) => Ok(text),
        None => mistake(input, start, "string", "invalid syntax"),
    }
}

/// Unquotes the inside of a double-quoted Go string.
fn unquote(body: &str) -> Option<String> {
    let mut bytes: Vec<u8> = Vec::with_capacity(body.len());
    let mut letters = body.chars();
    let mut buffer = [0; 4];
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => return None,
            '\\' => match letters.next()? {
                'a' => bytes.push(7),
                'b' => bytes.push(8),
                'f' => bytes.push(12),
                'n' => bytes.push(b'\n'),
                'r' => bytes.push(b'\r'),
                't' => bytes.push(b'\t'),
                'v' => bytes.push(11),
                '\\' => bytes.push(b'\\'),
                'x' => bytes.push(u8::try_from(digits(&mut letters, 2, 16)?).ok()?),
                'u' => bytes.extend(char::from_u32(digits(&mut letters, 4, 16)?)?.encode_utf8(&mut buffer).bytes()),
                'U' => bytes.extend(char::from_u32(digits(&mut letters, 8, 16)?)?.encode_utf8(&mut buffer).bytes()),
                first @ '0'..='7' => {
                    let rest = digits(&mut letters, 2, 8)?;
                    bytes.push(u8::try_from(first.to_digit(8)? * 64 + rest).ok()?);
                }
                _ => return None,
            },
            plain => bytes.extend(plain.encode_utf8(&mut buffer).bytes()),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn digits(letters: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    let mut number: u32 = 0;
    for _ in 0..count {
        number = number.checked_mul(radix)?.checked_add(letters.next()?.to_digit(radix)?)?;
    }
    Some(number)
}
