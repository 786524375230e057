//! Texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::arg;
use crate::regexp;
use crate::template::consul::json::{self as notation, Style};
use crate::template::consul::{encode, text as plain_text};
use crate::template::{Value, bytes_of_text, format, literal};

/// Largest text that `repeat` and `indent` make, in bytes.
const BYTES_MAX: usize = 1 << 20;

type Called = Result<Value, String>;

pub(super) fn trim_all(args: &[Value]) -> Called {
    Ok(Value::text(arg(args, 1).trim_matches(|letter| arg(args, 0).contains(letter))))
}

pub(super) fn trim_prefix(args: &[Value]) -> Called {
    Ok(Value::text(arg(args, 1).strip_prefix(arg(args, 0)).unwrap_or(arg(args, 1))))
}

pub(super) fn trim_suffix(args: &[Value]) -> Called {
    Ok(Value::text(arg(args, 1).strip_suffix(arg(args, 0)).unwrap_or(arg(args, 1))))
}

fn count(args: &[Value], place: usize) -> Option<usize> {
    usize::try_from(super::whole(&args[place])).ok()
}

/// The first characters, or the last ones for a negative count.
pub(super) fn trunc(args: &[Value]) -> Called {
    let text = arg(args, 1);
    Ok(Value::text(match count(args, 0) {
        Some(count) => text.chars().take(count).collect::<String>(),
        None => {
            let kept = usize::try_from(super::whole(&args[0]).unsigned_abs()).unwrap_or(usize::MAX);
            let skipped = text.chars().count().saturating_sub(kept);
            text.chars().skip(skipped).collect()
        }
    }))
}

pub(super) fn substr(args: &[Value]) -> Called {
    let from = count(args, 0).unwrap_or_default();
    let to = count(args, 1).unwrap_or(usize::MAX);
    Ok(Value::text(arg(args, 2).chars().take(to).skip(from).collect::<String>()))
}

pub(super) fn repeat(args: &[Value]) -> Called {
    let times = count(args, 0).unwrap_or_default();
    if arg(args, 1).len().saturating_mul(times) > BYTES_MAX {
        return Err(format!("the text is longer than {BYTES_MAX} bytes"));
    }
    Ok(Value::text(arg(args, 1).repeat(times)))
}

pub(super) fn indent(args: &[Value], before: &str) -> Called {
    let spaces = count(args, 0).unwrap_or_default();
    let lines = arg(args, 1).matches('\n').count() + 1;
    if lines.saturating_mul(spaces) > BYTES_MAX {
        return Err(format!("the text is longer than {BYTES_MAX} bytes"));
    }
    Ok(Value::text(format!("{before}{}", plain_text::indented(arg(args, 1), &" ".repeat(spaces), true))))
}

/// Values in quotes, without those that are nothing.
pub(super) fn quoted(args: &[Value], mark: char) -> String {
    let all = args.iter().filter(|value| !matches!(value, Value::Missing | Value::Nil)).map(format::plain);
    let all: Vec<String> =
        all.map(|text| if mark == '"' { literal::quoted(&text) } else { format!("{mark}{text}{mark}") }).collect();
    all.join(" ")
}

pub(super) fn joined(args: &[Value], separator: &str) -> String {
    let all: Vec<String> =
        args.iter().filter(|value| !matches!(value, Value::Missing | Value::Nil)).map(format::plain).collect();
    all.join(separator)
}

pub(super) fn regex_match(args: &[Value]) -> Called {
    // An expression that is none matches nothing.
    Ok(Value::Bool(regexp::compile(arg(args, 0)).is_ok_and(|expression| expression.is_match(arg(args, 1)))))
}

pub(super) fn regex_replace(args: &[Value]) -> Called {
    let expression = regexp::compile(arg(args, 0)).map_err(|error| error.to_string())?;
    Ok(Value::text(expression.replace_all(arg(args, 1), arg(args, 2))))
}

pub(super) fn b64enc(args: &[Value]) -> Called {
    Ok(Value::text(STANDARD.encode(bytes_of_text(arg(args, 0)))))
}

/// The decoded text, or the error as text.
pub(super) fn b64dec(args: &[Value]) -> Called {
    match encode::decoded("", &STANDARD, arg(args, 0)) {
        Ok(value) => Ok(value),
        Err(error) => Ok(Value::text(error.trim_start_matches(": "))),
    }
}

pub(super) fn json(value: &Value, pretty: bool) -> String {
    notation::text(value, Style { escape: true, pretty })
}

/// The value, or nothing for what is no JSON.
pub(super) fn from_json(args: &[Value]) -> Called {
    Ok(serde_json::from_str(arg(args, 0)).map_or(Value::Nil, |json| Value::of_json(&json)))
}
