//! Texts: parts of them, space around them, and lists of them. Places in texts count bytes, as in Go.

use super::{Called, Plain, arg, is_nil, math, texts};
use crate::template::bounds::fits;
use crate::template::consul::text as plain_text;
use crate::template::value::{Map, bytes_of_text, text_of_bytes};
use crate::template::{Type, Value, format, literal};

pub(super) const PLAIN: &[Plain] = &[
    ("cat", &[], Some(Type::Any), |args| {
        let all: Vec<String> = args.iter().filter(|value| !is_nil(value)).map(format::plain).collect();
        Ok(Value::text(all.join(" ")))
    }),
    ("contains", &[Type::Text, Type::Text], None, |args| Ok(Value::Bool(arg(args, 1).contains(arg(args, 0))))),
    ("hasPrefix", &[Type::Text, Type::Text], None, |args| Ok(Value::Bool(arg(args, 1).starts_with(arg(args, 0))))),
    ("hasSuffix", &[Type::Text, Type::Text], None, |args| Ok(Value::Bool(arg(args, 1).ends_with(arg(args, 0))))),
    ("indent", &[Type::Int, Type::Text], None, |args| indent(args, "")),
    ("join", &[Type::Text, Type::Any], None, |args| plain_text::joined(&texts(&args[1]), arg(args, 0))),
    ("lower", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_lowercase()))),
    ("nindent", &[Type::Int, Type::Text], None, |args| indent(args, "\n")),
    ("nospace", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).replace(char::is_whitespace, "")))),
    ("plural", &[Type::Text, Type::Text, Type::Int], None, |args| {
        Ok(args[usize::from(!matches!(args[2], Value::Int(1)))].clone())
    }),
    ("quote", &[], Some(Type::Any), |args| Ok(quoted(args, literal::quoted))),
    ("repeat", &[Type::Int, Type::Text], None, repeat),
    ("replace", &[Type::Text, Type::Text, Type::Text], None, |args| {
        plain_text::replaced(arg(args, 2), arg(args, 0), arg(args, 1))
    }),
    ("sortAlpha", &[Type::Any], None, |args| {
        let mut texts = texts(&args[0]);
        texts.sort();
        Ok(Value::texts(texts))
    }),
    ("split", &[Type::Text, Type::Text], None, |args| Ok(numbered(parts(arg(args, 0), arg(args, 1), usize::MAX)))),
    ("splitList", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::texts(parts(arg(args, 0), arg(args, 1), usize::MAX)))
    }),
    ("splitn", &[Type::Text, Type::Int, Type::Text], None, |args| {
        let count = usize::try_from(math::whole(&args[1])).unwrap_or(usize::MAX);
        Ok(numbered(parts(arg(args, 0), arg(args, 2), count)))
    }),
    ("squote", &[], Some(Type::Any), |args| Ok(quoted(args, |text| format!("'{text}'")))),
    ("substr", &[Type::Int, Type::Int, Type::Text], None, substr),
    ("title", &[Type::Text], None, |args| Ok(Value::text(title(arg(args, 0))))),
    ("toStrings", &[Type::Any], None, |args| Ok(Value::texts(texts(&args[0])))),
    ("trim", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).trim()))),
    ("trimAll", &[Type::Text, Type::Text], None, trim_all),
    ("trimPrefix", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(arg(args, 1).strip_prefix(arg(args, 0)).unwrap_or(arg(args, 1))))
    }),
    ("trimSuffix", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(arg(args, 1).strip_suffix(arg(args, 0)).unwrap_or(arg(args, 1))))
    }),
    ("trimall", &[Type::Text, Type::Text], None, trim_all),
    ("trunc", &[Type::Int, Type::Text], None, trunc),
    ("upper", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_uppercase()))),
];

fn trim_all(args: &[Value]) -> Called {
    Ok(Value::text(plain_text::trimmed(arg(args, 1), arg(args, 0))))
}

/// The first bytes, or the last ones for a negative count.
fn trunc(args: &[Value]) -> Called {
    let bytes = bytes_of_text(arg(args, 1));
    let count = math::whole(&args[0]);
    let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX).min(bytes.len());
    let kept = if count < 0 { &bytes[bytes.len() - kept..] } else { &bytes[..kept] };
    Ok(Value::text(text_of_bytes(kept)))
}

fn substr(args: &[Value]) -> Called {
    let bytes = bytes_of_text(arg(args, 2));
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let (from, to) = match (math::whole(&args[0]), math::whole(&args[1])) {
        (from, to) if from < 0 => (0, to),
        (from, to) if to < 0 || to > length => (from, length),
        both => both,
    };
    let refused = |range: String| Err(format!("runtime error: slice bounds out of range {range}"));
    match (usize::try_from(from), usize::try_from(to)) {
        (_, Ok(end)) if end > bytes.len() => refused(format!("[:{to}] with length {length}")),
        (Ok(start), Ok(end)) if start <= end => Ok(Value::text(text_of_bytes(&bytes[start..end]))),
        (_, Ok(_)) => refused(format!("[{from}:{to}]")),
        (_, Err(_)) => refused(format!("[:{to}]")),
    }
}

fn repeat(args: &[Value]) -> Called {
    let Ok(times) = usize::try_from(math::whole(&args[0])) else {
        return Err("strings: negative Repeat count".to_owned());
    };
    fits(arg(args, 1).len().saturating_mul(times))?;
    Ok(Value::text(arg(args, 1).repeat(times)))
}

fn indent(args: &[Value], before: &str) -> Called {
    let Ok(spaces) = usize::try_from(math::whole(&args[0])) else {
        return Err("strings: negative Repeat count".to_owned());
    };
    Ok(Value::text(format!("{before}{}", plain_text::indented(arg(args, 1), spaces, true)?)))
}

/// Values in quotes, without those that are nothing.
fn quoted(args: &[Value], quote: impl Fn(&str) -> String) -> Value {
    let all = args.iter().filter(|value| !is_nil(value)).map(|value| quote(&format::plain(value)));
    Value::text(all.collect::<Vec<String>>().join(" "))
}

/// At most so many parts of a text; the characters for an empty separator.
fn parts<'t>(separator: &str, text: &'t str, count_max: usize) -> Vec<&'t str> {
    if !separator.is_empty() {
        return text.splitn(count_max, separator).collect();
    }
    let ends = text.char_indices().skip(1).map(|(at, _)| at).take(count_max.saturating_sub(1));
    let mut parts = Vec::new();
    let mut from = 0;
    for end in ends {
        parts.push(&text[from..end]);
        from = end;
    }
    if from < text.len() && count_max > 0 {
        parts.push(&text[from..]);
    }
    parts
}

/// Texts as `_0`, `_1` and so on.
fn numbered(parts: Vec<&str>) -> Value {
    let items = parts.into_iter().enumerate().map(|(at, part)| (format!("_{at}").into(), Value::text(part))).collect();
    Value::Map(std::sync::Arc::new(Map::new("string", Value::text(""), items)))
}

/// A text with a capital at each letter that follows something else than a letter, a digit or an underscore.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for letter in text.chars() {
        let is_separator = |letter: char| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => false,
            letter if letter.is_ascii() => true,
            letter => letter.is_whitespace(),
        };
        if is_separator(before) {
            out.extend(letter.to_uppercase())
        } else {
            out.push(letter)
        }
        before = letter;
    }
    out
}
