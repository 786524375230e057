//! Texts.

use std::collections::BTreeSet;

use regex::Regex;

use super::collection::{split, texts};
use super::{Plain, arg};
use crate::regexp;
use crate::template::bounds::fits;
use crate::template::{Type, Value};

/// Largest indentation.
const INDENT_MAX: i64 = 10_000;

pub(super) const PLAIN: &[Plain] = &[
    ("indent", &[Type::Int, Type::Text], None, |args| {
        let spaces = match args[0] {
            Value::Int(spaces @ 0..=INDENT_MAX) => usize::try_from(spaces).unwrap_or_default(),
            _ => return Err("indent value must be a positive integer".to_owned()),
        };
        indented(arg(args, 1), spaces, false).map(Value::text)
    }),
    ("join", &[Type::Text, Type::Texts], None, |args| joined(&texts(&args[1]), arg(args, 0))),
    ("regexMatch", &[Type::Text, Type::Text], None, |args| {
        let expression = regexp::compile(arg(args, 0)).map_err(|error| error.to_string())?;
        Ok(Value::Bool(expression.is_match(arg(args, 1))))
    }),
    ("regexReplaceAll", &[Type::Text, Type::Text, Type::Text], None, |args| {
        let expression = regexp::compile(arg(args, 0)).map_err(|error| error.to_string())?;
        matches_replaced(&expression, arg(args, 2), arg(args, 1), true)
    }),
    ("replaceAll", &[Type::Text, Type::Text, Type::Text], None, |args| {
        replaced(arg(args, 2), arg(args, 0), arg(args, 1))
    }),
    ("split", &[Type::Text, Type::Text], None, split),
    ("toLower", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_lowercase()))),
    ("toTitle", &[Type::Text], None, |args| Ok(Value::text(title(arg(args, 0))))),
    ("toUpper", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_uppercase()))),
    ("trim", &[Type::Text, Type::Text], None, |args| Ok(Value::text(trimmed(arg(args, 1), arg(args, 0))))),
    ("trimPrefix", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(arg(args, 1).strip_prefix(arg(args, 0)).unwrap_or(arg(args, 1))))
    }),
    ("trimSuffix", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(arg(args, 1).strip_suffix(arg(args, 0)).unwrap_or(arg(args, 1))))
    }),
    ("trimSpace", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).trim()))),
];

/// A text with its lines indented, the empty ones on demand.
pub(super) fn indented(text: &str, spaces: usize, empty_too: bool) -> Result<String, String> {
    let is_indented = |line: &&str| empty_too || !line.is_empty();
    let count = text.split('\n').filter(is_indented).count();
    fits(count.saturating_mul(spaces).saturating_add(text.len()))?;
    let margin = " ".repeat(spaces);
    let one = |line: &str| if is_indented(&line) { format!("{margin}{line}") } else { String::new() };
    let lines: Vec<String> = text.split('\n').map(one).collect();
    Ok(lines.join("\n"))
}

/// Texts with a separator between any two.
pub(super) fn joined(texts: &[String], separator: &str) -> Result<Value, String> {
    let own: usize = texts.iter().map(String::len).sum();
    let between = texts.len().saturating_sub(1).saturating_mul(separator.len());
    fits(own.saturating_add(between))?;
    Ok(Value::text(texts.join(separator)))
}

/// A text with other parts. An empty part stands before each character and at the end, as in Go.
pub(super) fn replaced(text: &str, old: &str, new: &str) -> Result<Value, String> {
    let count = text.matches(old).count();
    fits((text.len() - count * old.len()).saturating_add(count.saturating_mul(new.len())))?;
    Ok(Value::text(text.replace(old, new)))
}

/// A text with its matches replaced. If the replacement `expands`, `$1` and `${name}` in it stand for groups.
pub(super) fn matches_replaced(
    expression: &Regex,
    text: &str,
    replacement: &str,
    expands: bool,
) -> Result<Value, String> {
    let groups = if expands { replacement.matches('$').count() } else { 0 };
    let (mut out, mut end) = (String::new(), 0);
    let mut add = |range: std::ops::Range<usize>, write: &dyn Fn(&mut String)| {
        // A group is no longer than the match.
        let longest = groups.saturating_mul(range.len()).saturating_add(replacement.len());
        out.push_str(&text[end..range.start]);
        fits(out.len().saturating_add(longest))?;
        write(&mut out);
        end = range.end;
        Ok::<(), String>(())
    };
    if groups == 0 {
        for found in expression.find_iter(text) {
            add(found.range(), &|out: &mut String| out.push_str(replacement))?;
        }
    } else {
        for found in expression.captures_iter(text) {
            let range = found.get(0).map_or(0..0, |whole| whole.range());
            add(range, &|out: &mut String| found.expand(replacement, out))?;
        }
    }
    fits(out.len() + text.len() - end)?;
    out.push_str(&text[end..]);
    Ok(Value::text(out))
}

/// A text without any of these letters at its ends.
pub(super) fn trimmed<'t>(text: &'t str, letters: &str) -> &'t str {
    let letters: BTreeSet<char> = letters.chars().collect();
    text.trim_matches(|letter| letters.contains(&letter))
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
