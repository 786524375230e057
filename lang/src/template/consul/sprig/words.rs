//! Words of texts: their case, their initials, and lines of them.

use super::{Called, Plain, arg, math};
use crate::template::bounds::fits;
use crate::template::value::{bytes_of_text, text_of_bytes};
use crate::template::{Type, Value};

pub(super) const PLAIN: &[Plain] = &[
    ("abbrev", &[Type::Int, Type::Text], None, |args| {
        let (width, bytes) = (math::whole(&args[0]), bytes_of_text(arg(args, 1)));
        let short = usize::try_from(width).ok().filter(|width| *width >= 4).map(|width| abbreviated(&bytes, 0, width));
        Ok(short.map_or_else(|| args[1].clone(), |short| Value::text(text_of_bytes(&short))))
    }),
    ("abbrevboth", &[Type::Int, Type::Int, Type::Text], None, abbreviate_both),
    ("camelcase", &[Type::Text], None, |args| Ok(Value::text(camel(arg(args, 0))))),
    ("initials", &[Type::Text], None, |args| {
        let initials = arg(args, 0).split_whitespace().filter_map(|word| word.chars().next());
        Ok(Value::text(initials.collect::<String>()))
    }),
    ("kebabcase", &[Type::Text], None, |args| Ok(Value::text(joined(arg(args, 0), '-')))),
    ("snakecase", &[Type::Text], None, |args| Ok(Value::text(joined(arg(args, 0), '_')))),
    ("swapcase", &[Type::Text], None, |args| Ok(Value::text(swapped(arg(args, 0))))),
    ("untitle", &[Type::Text], None, |args| Ok(Value::text(untitled(arg(args, 0))))),
    ("wrap", &[Type::Int, Type::Text], None, |args| wrapped(math::whole(&args[0]), "\n", arg(args, 1), false)),
    ("wrapWith", &[Type::Int, Type::Text, Type::Text], None, |args| {
        wrapped(math::whole(&args[0]), arg(args, 1), arg(args, 2), true)
    }),
];

fn abbreviate_both(args: &[Value]) -> Called {
    let (left, right) = (math::whole(&args[0]), math::whole(&args[1]));
    let bytes = bytes_of_text(arg(args, 2));
    let fits = right >= 4 && (left <= 0 || right >= 7);
    let width = usize::try_from(right).ok().filter(|_| fits);
    let from = usize::try_from(left).unwrap_or_default();
    let short = width.map(|width| abbreviated(&bytes, from, width));
    Ok(short.map_or_else(|| args[2].clone(), |short| Value::text(text_of_bytes(&short))))
}

/// A text of at most `width` bytes, which are at least 4, with dots for what is left out at its end, and before `from`.
fn abbreviated(bytes: &[u8], from: usize, width: usize) -> Vec<u8> {
    const DOTS: &[u8] = b"...";
    if bytes.len() <= width {
        return bytes.to_vec();
    }
    let room = width - DOTS.len();
    let from = from.min(bytes.len() - room);
    if from <= 4 {
        return [&bytes[..room], DOTS].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if from + room < bytes.len() {
        return [DOTS.to_vec(), abbreviated(&bytes[from..], 0, room)].concat();
    }
    [DOTS, &bytes[bytes.len() - room..]].concat()
}

fn swapped(text: &str) -> String {
    let swap = |letter: char| -> String {
        if letter.is_uppercase() { letter.to_lowercase().collect() } else { letter.to_uppercase().collect() }
    };
    text.chars().map(swap).collect()
}

/// A text whose words begin with small letters.
fn untitled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for letter in text.chars() {
        if begins {
            out.extend(letter.to_lowercase())
        } else {
            out.push(letter)
        }
        begins = letter.is_whitespace();
    }
    out
}

/// Lines of at most `width` bytes, broken at blanks; longer words are lines of their own or are cut.
fn wrapped(width: i64, line_break: &str, text: &str, cut_words: bool) -> Called {
    let line_break = bytes_of_text(if line_break.is_empty() { "\n" } else { line_break });
    let width = usize::try_from(width).unwrap_or_default().max(1);
    let bytes = bytes_of_text(text);
    let (mut out, mut rest) = (Vec::new(), bytes.as_slice());
    while rest.len() > width {
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let blank = rest[..=width].iter().rposition(|byte| *byte == b' ');
        let blank = blank.or_else(|| {
            // With `cut_words` the search would go over the whole rest for each line.
            let after = if cut_words { None } else { rest[width..].iter().position(|byte| *byte == b' ') };
            after.map(|after| width + after)
        });
        let (line, after) = match blank {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None if cut_words => rest.split_at(width),
            None => break,
        };
        fits(out.len() + line.len() + line_break.len())?;
        out.extend_from_slice(line);
        out.extend_from_slice(&line_break);
        rest = after;
    }
    fits(out.len() + rest.len())?;
    out.extend_from_slice(rest);
    Ok(Value::text(text_of_bytes(&out)))
}

/// `some_words` as `SomeWords`. Underscores at the start stay.
fn camel(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    let mut last = None;
    for letter in letters.by_ref() {
        if !is_connector(letter) {
            last = Some(upper(letter));
            break;
        }
        out.push(letter);
    }
    let Some(mut last) = last else {
        // A text of connectors alone gets its last one twice, as in the reference.
        out.extend(text.chars().next_back());
        return out;
    };
    for letter in letters {
        let before = last;
        last = match (is_connector(before), is_connector(letter)) {
            (true, true) => {
                out.push(before);
                letter
            }
            (true, false) => upper(letter),
            (false, _) => {
                out.push(before);
                letter.to_lowercase().next().unwrap_or(letter)
            }
        };
    }
    out.push(last);
    out
}

fn upper(letter: char) -> char {
    letter.to_uppercase().next().unwrap_or(letter)
}

/// Kind of a run of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Nothing,
    Number,
    /// Begins with a capital.
    Capital,
    Small,
    Connector,
    Punctuation,
    Other,
}

/// `SomeWords2Join` as `some_words2_join`, with this connector.
fn joined(text: &str, connector: char) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let (mut run, mut word, mut rest) = next_run(&letters);
    while !rest.is_empty() {
        if run != Run::Connector {
            write_lower(&mut out, run, word, connector);
        }
        let (before, last) = (run, word);
        (run, word, rest) = next_run(rest);
        let mut is_in_number = false;
        match before {
            Run::Connector => write_lower(&mut out, before, last, connector),
            Run::Punctuation => {}
            Run::Number => is_in_number = true,
            Run::Nothing | Run::Capital | Run::Small | Run::Other if run != Run::Number => {
                if !matches!(run, Run::Connector | Run::Punctuation) {
                    out.push(connector);
                }
            }
            Run::Nothing | Run::Capital | Run::Small | Run::Other => {
                if rest.is_empty() {
                    break;
                }
                let digits = word;
                (run, word, rest) = next_run(rest);
                if run == Run::Small {
                    // Small letters after a number belong to it: `HTTP2xx` is `http_2xx`.
                    out.push(connector);
                    is_in_number = true;
                } else if !matches!(run, Run::Connector | Run::Punctuation) {
                    write_lower(&mut out, Run::Number, digits, connector);
                    out.push(connector);
                    continue;
                }
                write_lower(&mut out, Run::Number, digits, connector);
            }
        }
        if is_in_number {
            while matches!(run, Run::Small | Run::Number) {
                write_lower(&mut out, run, word, connector);
                (run, word, rest) = next_run(rest);
            }
            if !matches!(run, Run::Nothing | Run::Connector | Run::Punctuation) {
                out.push(connector);
            }
        }
    }
    write_lower(&mut out, run, word, connector);
    out
}

fn write_lower(out: &mut String, run: Run, word: &[char], connector: char) {
    if !matches!(run, Run::Capital | Run::Connector) {
        out.extend(word);
        return;
    }
    for letter in word {
        if is_connector(*letter) { out.push(connector) } else { out.extend(letter.to_lowercase()) }
    }
}

/// The first run of a text, and the rest.
fn next_run(text: &[char]) -> (Run, &[char], &[char]) {
    let Some(&first) = text.first() else { return (Run::Nothing, &[], &[]) };
    let while_so = |is_so: fn(char) -> bool| text.iter().position(|letter| !is_so(*letter)).unwrap_or(text.len());
    let (run, length) = if is_connector(first) {
        (Run::Connector, while_so(is_connector))
    } else if is_punctuation(first) {
        (Run::Punctuation, while_so(is_punctuation))
    } else if first.is_uppercase() {
        (Run::Capital, capitals(text))
    } else if is_letter(first) {
        (Run::Small, while_so(is_small))
    } else if first.is_numeric() {
        (Run::Number, while_so(char::is_numeric))
    } else {
        (Run::Other, while_so(is_other))
    };
    let (word, rest) = text.split_at(length);
    (run, word, rest)
}

/// Length of the word that begins with a capital. The last of several capitals begins a word if letters follow it:
/// `HTTPServer` is `HTTP` and `Server`.
fn capitals(text: &[char]) -> usize {
    let count = text.iter().position(|letter| !letter.is_uppercase()).unwrap_or(text.len());
    if count > 1 {
        return if text.get(count).is_some_and(|letter| is_letter(*letter)) { count - 1 } else { count };
    }
    1 + text[1..].iter().position(|letter| !is_small(*letter)).unwrap_or(text.len() - 1)
}

fn is_connector(letter: char) -> bool {
    matches!(letter, '-' | '_') || letter.is_whitespace()
}

fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation() && !matches!(letter, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
}

/// Letters of scripts with words; those of Chinese and Japanese are none.
fn is_letter(letter: char) -> bool {
    letter.is_alphabetic() && letter < '\u{3400}'
}

fn is_small(letter: char) -> bool {
    is_letter(letter) && !letter.is_uppercase()
}

fn is_other(letter: char) -> bool {
    !is_connector(letter) && !is_punctuation(letter) && !is_letter(letter) && !letter.is_numeric()
}
