//! Regular expressions.

use ::regex::Regex;

use super::{Called, Plain, arg, math};
use crate::regexp;
use crate::template::consul::text::matches_replaced;
use crate::template::{Type, Value};

const TWO: &[Type] = &[Type::Text, Type::Text];
const THREE: &[Type] = &[Type::Text, Type::Text, Type::Text];
const COUNTED: &[Type] = &[Type::Text, Type::Text, Type::Int];

pub(super) const PLAIN: &[Plain] = &[
    ("mustRegexFind", TWO, None, |args| Ok(find(&compiled(args)?, args))),
    ("mustRegexFindAll", COUNTED, None, |args| Ok(find_all(&compiled(args)?, args))),
    ("mustRegexMatch", TWO, None, |args| Ok(Value::Bool(compiled(args)?.is_match(arg(args, 1))))),
    ("mustRegexReplaceAll", THREE, None, |args| replace(&compiled(args)?, args)),
    ("mustRegexReplaceAllLiteral", THREE, None, |args| replace_literally(&compiled(args)?, args)),
    ("mustRegexSplit", COUNTED, None, |args| Ok(split(&compiled(args)?, args))),
    ("regexFind", TWO, None, |args| Ok(find(&must(args)?, args))),
    ("regexFindAll", COUNTED, None, |args| Ok(find_all(&must(args)?, args))),
    // An expression that is none matches nothing.
    ("regexMatch", TWO, None, |args| Ok(Value::Bool(compiled(args).is_ok_and(|found| found.is_match(arg(args, 1)))))),
    ("regexQuoteMeta", &[Type::Text], None, |args| Ok(Value::text(quoted(arg(args, 0))))),
    ("regexReplaceAll", THREE, None, |args| replace(&must(args)?, args)),
    ("regexReplaceAllLiteral", THREE, None, |args| replace_literally(&must(args)?, args)),
    ("regexSplit", COUNTED, None, |args| Ok(split(&must(args)?, args))),
];

fn compiled(args: &[Value]) -> Result<Regex, String> {
    regexp::compile(arg(args, 0)).map_err(|error| error.to_string())
}

/// The expression; the error is that of a panic in Go.
fn must(args: &[Value]) -> Result<Regex, String> {
    compiled(args).map_err(|error| format!("regexp: Compile(`{}`): {error}", arg(args, 0)))
}

fn find(expression: &Regex, args: &[Value]) -> Value {
    Value::text(expression.find(arg(args, 1)).map_or("", |found| found.as_str()))
}

/// A count as Go has it: a negative one is no bound.
fn count(args: &[Value]) -> usize {
    usize::try_from(math::whole(&args[2])).unwrap_or(usize::MAX)
}

fn find_all(expression: &Regex, args: &[Value]) -> Value {
    Value::texts(expression.find_iter(arg(args, 1)).take(count(args)).map(|found| found.as_str()))
}

fn replace(expression: &Regex, args: &[Value]) -> Called {
    matches_replaced(expression, arg(args, 1), arg(args, 2), true)
}

fn replace_literally(expression: &Regex, args: &[Value]) -> Called {
    matches_replaced(expression, arg(args, 1), arg(args, 2), false)
}

/// Parts of a text between matches. An empty match at the start of the text does not begin a part.
fn split(expression: &Regex, args: &[Value]) -> Value {
    let (text, count) = (arg(args, 1), count(args));
    if count == 0 {
        return Value::texts::<&str>([]);
    }
    if text.is_empty() && !arg(args, 0).is_empty() {
        return Value::texts([""]);
    }
    let mut parts = Vec::new();
    let (mut from, mut end) = (0, 0);
    for found in expression.find_iter(text).take(count) {
        if parts.len() == count - 1 {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(&text[from..end]);
        }
        from = found.end();
    }
    if end != text.len() {
        parts.push(&text[from..]);
    }
    Value::texts(parts)
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}
