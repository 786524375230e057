//! Texts.

use super::collection::{split, texts};
use super::{Plain, arg};
use crate::regexp;
use crate::template::{Type, Value};

/// Largest indentation.
const INDENT_MAX: i64 = 10_000;

pub(super) const PLAIN: &[Plain] = &[
    ("indent", &[Type::Int, Type::Text], None, |args| {
        let spaces = match args[0] {
            Value::Int(spaces @ 0..=INDENT_MAX) => usize::try_from(spaces).unwrap_or_default(),
            _ => return Err("indent value must be a positive integer".to_owned()),
        };
        Ok(Value::text(indented(arg(args, 1), &" ".repeat(spaces), false)))
    }),
    ("join", &[Type::Text, Type::Texts], None, |args| Ok(Value::text(texts(&args[1]).join(arg(args, 0))))),
    ("regexMatch", &[Type::Text, Type::Text], None, |args| {
        let expression = regexp::compile(arg(args, 0)).map_err(|error| error.to_string())?;
        Ok(Value::Bool(expression.is_match(arg(args, 1))))
    }),
    ("regexReplaceAll", &[Type::Text, Type::Text, Type::Text], None, |args| {
        let expression = regexp::compile(arg(args, 0)).map_err(|error| error.to_string())?;
        Ok(Value::text(expression.replace_all(arg(args, 2), arg(args, 1))))
    }),
    ("replaceAll", &[Type::Text, Type::Text, Type::Text], None, |args| {
        Ok(Value::text(replaced(arg(args, 2), arg(args, 0), arg(args, 1))))
    }),
    ("split", &[Type::Text, Type::Text], None, split),
    ("toLower", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_lowercase()))),
    ("toTitle", &[Type::Text], None, |args| Ok(Value::text(title(arg(args, 0))))),
    ("toUpper", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_uppercase()))),
    ("trim", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(arg(args, 1).trim_matches(|letter| arg(args, 0).contains(letter))))
    }),
    ("trimPrefix", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(arg(args, 1).strip_prefix(arg(args, 0)).unwrap_or(arg(args, 1))))
    }),
    ("trimSuffix", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(arg(args, 1).strip_suffix(arg(args, 0)).unwrap_or(arg(args, 1))))
    }),
    ("trimSpace", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).trim()))),
];

/// A text with its lines indented, the empty ones on demand.
pub(super) fn indented(text: &str, margin: &str, empty_too: bool) -> String {
    let one = |line: &str| if line.is_empty() && !empty_too { String::new() } else { format!("{margin}{line}") };
    let lines: Vec<String> = text.split('\n').map(one).collect();
    lines.join("\n")
}

/// A text with other parts. An empty part stands before each character and at the end, as in Go.
pub(super) fn replaced(text: &str, old: &str, new: &str) -> String {
    text.replace(old, new)
}

/// A text whose words begin with capitals.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for letter in text.chars() {
        let in_word = before.is_alphanumeric() || before == '_' || before == '\'';
        if in_word {
            out.push(letter)
        } else {
            out.extend(letter.to_uppercase())
        }
        before = letter;
    }
    out
}
