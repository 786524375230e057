//! The functions of Sprig that templates use most, with `sprig_` before their names.

mod list;
mod text;

use super::{Plain, arg};
use crate::template::{Type, Value, format};

pub(super) const PLAIN: &[Plain] = &[
    ("sprig_add", &[], Some(Type::Any), |args| folded(args, 0, i64::checked_add)),
    ("sprig_add1", &[Type::Any], None, |args| Ok(Value::Int(whole(&args[0]).saturating_add(1)))),
    ("sprig_mul", &[Type::Any], Some(Type::Any), |args| folded(args, 1, i64::checked_mul)),
    ("sprig_sub", &[Type::Any, Type::Any], None, |args| two(args, i64::checked_sub)),
    ("sprig_div", &[Type::Any, Type::Any], None, |args| two(args, i64::checked_div)),
    ("sprig_mod", &[Type::Any, Type::Any], None, |args| two(args, i64::checked_rem)),
    ("sprig_max", &[Type::Any], Some(Type::Any), |args| {
        Ok(Value::Int(args.iter().map(whole).max().unwrap_or_default()))
    }),
    ("sprig_min", &[Type::Any], Some(Type::Any), |args| {
        Ok(Value::Int(args.iter().map(whole).min().unwrap_or_default()))
    }),
    ("sprig_atoi", &[Type::Text], None, |args| Ok(Value::Int(arg(args, 0).parse().unwrap_or_default()))),
    ("sprig_int", &[Type::Any], None, |args| Ok(Value::Int(whole(&args[0])))),
    ("sprig_int64", &[Type::Any], None, |args| Ok(Value::Int(whole(&args[0])))),
    ("sprig_float64", &[Type::Any], None, |args| Ok(Value::Float(float(&args[0])))),
    ("sprig_floor", &[Type::Any], None, |args| Ok(Value::Float(float(&args[0]).floor()))),
    ("sprig_ceil", &[Type::Any], None, |args| Ok(Value::Float(float(&args[0]).ceil()))),
    ("sprig_toString", &[Type::Any], None, |args| Ok(Value::text(format::plain(&args[0])))),
    ("sprig_default", &[Type::Any], Some(Type::Any), |args| {
        let given = args.get(1).filter(|given| !is_empty(given));
        Ok(given.unwrap_or(&args[0]).clone())
    }),
    ("sprig_empty", &[Type::Any], None, |args| Ok(Value::Bool(is_empty(&args[0])))),
    ("sprig_coalesce", &[], Some(Type::Any), |args| {
        Ok(args.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil))
    }),
    ("sprig_all", &[], Some(Type::Any), |args| Ok(Value::Bool(!args.iter().any(is_empty)))),
    ("sprig_any", &[], Some(Type::Any), |args| Ok(Value::Bool(!args.iter().all(is_empty)))),
    ("sprig_ternary", &[Type::Any, Type::Any, Type::Bool], None, |args| {
        Ok(args[usize::from(!args[2].is_true())].clone())
    }),
    ("sprig_fail", &[Type::Text], None, |args| Err(arg(args, 0).to_owned())),
    // The environment of the agent is not that of the task.
    ("sprig_env", &[Type::Text], None, |_| Ok(Value::text(""))),
    ("sprig_expandenv", &[Type::Text], None, |args| Ok(Value::text(without_variables(arg(args, 0))))),
    ("sprig_kindOf", &[Type::Any], None, |args| Ok(Value::text(kind(&args[0])))),
    ("sprig_typeOf", &[Type::Any], None, |args| Ok(Value::text(args[0].type_name()))),
    ("sprig_contains", &[Type::Text, Type::Text], None, |args| Ok(Value::Bool(arg(args, 1).contains(arg(args, 0))))),
    ("sprig_hasPrefix", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::Bool(arg(args, 1).starts_with(arg(args, 0))))
    }),
    ("sprig_hasSuffix", &[Type::Text, Type::Text], None, |args| Ok(Value::Bool(arg(args, 1).ends_with(arg(args, 0))))),
    ("sprig_upper", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_uppercase()))),
    ("sprig_lower", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).to_lowercase()))),
    ("sprig_title", &[Type::Text], None, |args| Ok(Value::text(super::text::title(arg(args, 0))))),
    ("sprig_trim", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).trim()))),
    ("sprig_trimAll", &[Type::Text, Type::Text], None, text::trim_all),
    ("sprig_trimPrefix", &[Type::Text, Type::Text], None, text::trim_prefix),
    ("sprig_trimSuffix", &[Type::Text, Type::Text], None, text::trim_suffix),
    ("sprig_nospace", &[Type::Text], None, |args| Ok(Value::text(arg(args, 0).replace(char::is_whitespace, "")))),
    ("sprig_trunc", &[Type::Int, Type::Text], None, text::trunc),
    ("sprig_substr", &[Type::Int, Type::Int, Type::Text], None, text::substr),
    ("sprig_repeat", &[Type::Int, Type::Text], None, text::repeat),
    ("sprig_replace", &[Type::Text, Type::Text, Type::Text], None, |args| {
        Ok(Value::text(super::text::replaced(arg(args, 2), arg(args, 0), arg(args, 1))))
    }),
    ("sprig_indent", &[Type::Int, Type::Text], None, |args| text::indent(args, "")),
    ("sprig_nindent", &[Type::Int, Type::Text], None, |args| text::indent(args, "\n")),
    ("sprig_quote", &[], Some(Type::Any), |args| Ok(Value::text(text::quoted(args, '"')))),
    ("sprig_squote", &[], Some(Type::Any), |args| Ok(Value::text(text::quoted(args, '\'')))),
    ("sprig_cat", &[], Some(Type::Any), |args| Ok(Value::text(text::joined(args, " ")))),
    ("sprig_regexMatch", &[Type::Text, Type::Text], None, text::regex_match),
    ("sprig_regexReplaceAll", &[Type::Text, Type::Text, Type::Text], None, text::regex_replace),
    ("sprig_b64enc", &[Type::Text], None, text::b64enc),
    ("sprig_b64dec", &[Type::Text], None, text::b64dec),
    ("sprig_sha256sum", &[Type::Text], None, |args| Ok(Value::text(super::encode::sha256(arg(args, 0))))),
    ("sprig_toJson", &[Type::Any], None, |args| Ok(Value::text(text::json(&args[0], false)))),
    ("sprig_toPrettyJson", &[Type::Any], None, |args| Ok(Value::text(text::json(&args[0], true)))),
    ("sprig_fromJson", &[Type::Text], None, text::from_json),
    ("sprig_join", &[Type::Text, Type::Any], None, |args| {
        Ok(Value::text(super::collection::texts(&args[1]).join(arg(args, 0))))
    }),
    ("sprig_split", &[Type::Text, Type::Text], None, list::split),
    ("sprig_splitList", &[Type::Text, Type::Text], None, |args| Ok(Value::texts(arg(args, 1).split(arg(args, 0))))),
    ("sprig_list", &[], Some(Type::Any), |args| Ok(Value::list(args.to_vec()))),
    ("sprig_first", &[Type::Any], None, |args| Ok(list::items(&args[0]).first().cloned().unwrap_or(Value::Nil))),
    ("sprig_last", &[Type::Any], None, |args| Ok(list::items(&args[0]).last().cloned().unwrap_or(Value::Nil))),
    ("sprig_rest", &[Type::Any], None, |args| {
        Ok(Value::list(list::items(&args[0]).get(1..).unwrap_or_default().to_vec()))
    }),
    ("sprig_initial", &[Type::Any], None, |args| {
        Ok(Value::list(list::items(&args[0]).split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default()))
    }),
    ("sprig_append", &[Type::Any, Type::Any], None, |args| Ok(list::with(&args[0], &args[1], false))),
    ("sprig_prepend", &[Type::Any, Type::Any], None, |args| Ok(list::with(&args[0], &args[1], true))),
    ("sprig_reverse", &[Type::Any], None, |args| Ok(Value::list(list::items(&args[0]).into_iter().rev().collect()))),
    ("sprig_uniq", &[Type::Any], None, |args| Ok(list::unique(&args[0]))),
    ("sprig_sortAlpha", &[Type::Any], None, |args| {
        let mut texts = super::collection::texts(&args[0]);
        texts.sort();
        Ok(Value::texts(texts))
    }),
    ("sprig_has", &[Type::Any, Type::Any], None, |args| Ok(Value::Bool(list::has(&args[1], &args[0])))),
    ("sprig_without", &[Type::Any], Some(Type::Any), |args| Ok(list::without(args))),
    ("sprig_until", &[Type::Int], None, |args| list::until(0, whole(&args[0]), 1)),
    ("sprig_untilStep", &[Type::Int, Type::Int, Type::Int], None, |args| {
        list::until(whole(&args[0]), whole(&args[1]), whole(&args[2]))
    }),
    ("sprig_dict", &[], Some(Type::Any), list::dict),
    ("sprig_get", &[Type::Map, Type::Text], None, |args| {
        Ok(list::member(&args[0], arg(args, 1)).unwrap_or_else(|| Value::text("")))
    }),
    ("sprig_hasKey", &[Type::Map, Type::Text], None, |args| {
        Ok(Value::Bool(list::member(&args[0], arg(args, 1)).is_some()))
    }),
    ("sprig_keys", &[], Some(Type::Map), |args| Ok(Value::texts(args.iter().flat_map(list::keys)))),
    ("sprig_values", &[Type::Map], None, |args| Ok(Value::list(list::values(&args[0])))),
];

fn is_empty(value: &Value) -> bool {
    !value.is_true() && !matches!(value, Value::Record(_))
}

/// A value as a whole number; 0 if it is none.
fn whole(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        Value::Float(number) => *number as i64,
        Value::Bool(truth) => i64::from(*truth),
        Value::Text(text) => text.parse().unwrap_or_default(),
        _ => 0,
    }
}

fn float(value: &Value) -> f64 {
    match value {
        Value::Float(number) => *number,
        Value::Text(text) => text.parse().unwrap_or_default(),
        other => whole(other) as f64,
    }
}

fn folded(args: &[Value], from: i64, by: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    let total = args.iter().try_fold(from, |total, value| by(total, whole(value)));
    total.map(Value::Int).ok_or_else(|| "the result is too large".to_owned())
}

fn two(args: &[Value], by: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    let (a, b) = (whole(&args[0]), whole(&args[1]));
    by(a, b).map(Value::Int).ok_or_else(|| "runtime error: integer divide by zero".to_owned())
}

fn kind(value: &Value) -> String {
    match value.plain() {
        Value::List(_) => "slice".to_owned(),
        Value::Map(_) => "map".to_owned(),
        Value::Record(_) => "struct".to_owned(),
        Value::Missing | Value::Nil => "invalid".to_owned(),
        other => other.type_name(),
    }
}

/// A text whose `$NAME` and `${NAME}` are empty.
fn without_variables(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        rest = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').map_or("", |(_, after)| after),
            None => rest.trim_start_matches(|letter: char| letter == '_' || letter.is_ascii_alphanumeric()),
        };
    }
    out.push_str(rest);
    out
}
