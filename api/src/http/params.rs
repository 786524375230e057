//! Parameters that most routes share, parsed in the reference's order. Handlers parse the parameters of single
//! routes.

use std::borrow::Cow;
use std::time::Duration;

use songline_model::{DEFAULT_NAMESPACE, Str};

use crate::error::ApiError;
use crate::http::path::unescape;

/// Largest and default wait of a blocking query.
pub const WAIT_MAX: Duration = Duration::from_secs(300);

/// A query string. It is decoded on access: most requests have none.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a>(pub &'a str);

impl<'a> Query<'a> {
    /// The first value of a parameter.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.all(name).next()
    }

    /// The first value of a parameter, empty when there is none.
    pub fn text(self, name: &str) -> Cow<'a, str> {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter, in order.
    pub fn all(self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        self.pairs().filter(move |(key, _)| key == name).map(|(_, value)| value)
    }

    /// Whether the parameter is present, with or without a value.
    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Parses a boolean as Go does; `None` when it is absent or empty.
    pub fn boolean(self, name: &str) -> Result<Option<bool>, ApiError> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        parse_bool(&text).map(Some).ok_or_else(|| {
            ApiError::internal(format!(
                "Failed to parse value of \"{name}\" ({text}) as a bool: strconv.ParseBool: parsing {}: invalid syntax",
                quote(&text)
            ))
        })
    }

    /// Parses a flag such as `stale`, which is also set without a value.
    pub fn flag(self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.is_empty() || parse_bool(&value) == Some(true))
    }

    fn pairs(self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        self.0.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        })
    }
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return unescape(&spaced).map(|decoded| Cow::Owned(decoded.into_owned()));
    }
    unescape(text)
}

/// Parses a boolean as Go's `strconv.ParseBool` does.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A text in Go's double quotes, as `strconv.Quote` makes it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..' ' | '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(letter))),
            ' '..'\u{7f}' => out.push(letter),
            _ if is_printable(letter) => out.push(letter),
            '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    out.push('"');
    out
}

/// Whether a letter outside ASCII has a visible form.
fn is_printable(letter: char) -> bool {
    let mut buffer = [0; 5];
    buffer[0] = b'a';
    let bytes = 1 + letter.encode_utf8(&mut buffer[1..]).len();
    // Rust escapes combining marks at the start of a text only; Go never does.
    let text = std::str::from_utf8(&buffer[..bytes]).unwrap_or_default();
    text.escape_debug().count() == 2
}

/// Parameters of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadParams {
    /// Namespace; `*` stands for all of them in lists that support it.
    pub namespace: Str,
    /// Whether any server may answer with its own state.
    pub stale: bool,
    /// Prefix of the wanted ids.
    pub prefix: String,
    /// Rows per page; 0 for no paging.
    pub per_page: i32,
    /// Token of the page's first element; empty for the first page.
    pub next_token: String,
    /// A filter expression.
    pub filter: String,
    /// Whether the order is reversed.
    pub reverse: bool,
    /// Longest wait of a blocking query.
    pub wait: Duration,
    /// The query waits until the index exceeds this one; 0 does not wait.
    pub min_index: u64,
}

impl ReadParams {
    /// Parses the parameters. Refuses another region than `region`, which is this server's.
    pub fn parse(query: Query<'_>, region: &str) -> Result<Self, ApiError> {
        let mut out = ReadParams {
            namespace: Str::new_static(DEFAULT_NAMESPACE),
            stale: false,
            prefix: String::new(),
            per_page: 0,
            next_token: String::new(),
            filter: String::new(),
            reverse: false,
            wait: WAIT_MAX,
            min_index: 0,
        };
        if query.0.is_empty() {
            return Ok(out);
        }
        check_region(query, region)?;
        out.stale = query.flag("stale");
        out.prefix = query.text("prefix").into_owned();
        out.namespace = namespace(query);
        out.per_page = query.text("per_page").parse().unwrap_or(0);
        out.next_token = query.text("next_token").into_owned();
        out.filter = query.text("filter").into_owned();
        out.reverse = query.text("reverse") == "true";
        let wait = query.text("wait");
        if !wait.is_empty() {
            let nanos = parse_duration(&wait).ok_or_else(|| ApiError::bad_request("Invalid wait time"))?;
            if let Ok(nanos @ 1..) = u64::try_from(nanos) {
                out.wait = Duration::from_nanos(nanos).min(WAIT_MAX);
            }
        }
        let index = query.text("index");
        if !index.is_empty() {
            out.min_index = parse_uint(&index).map_err(|_| ApiError::bad_request("Invalid index"))?;
        }
        Ok(out)
    }

    /// Whether the read is about all namespaces.
    pub fn all_namespaces(&self) -> bool {
        self.namespace == "*"
    }

    /// Whether the read is about rows of this namespace.
    pub fn in_namespace(&self, namespace: &str) -> bool {
        self.all_namespaces() || self.namespace == namespace
    }
}

/// Error of a `stale` that is no boolean. The reference writes it, and then answers the query nevertheless.
pub fn stale_error(query: Query<'_>) -> Option<String> {
    let stale = query.get("stale").filter(|stale| !stale.is_empty() && parse_bool(stale).is_none())?;
    Some(format!("Expect `true` or `false` for `stale` query string parameter, got {stale}"))
}

/// Refuses a request for another region than this server's.
pub fn check_region(query: Query<'_>, region: &str) -> Result<(), ApiError> {
    match query.get("region") {
        Some(asked) if !asked.is_empty() && asked != region => Err(ApiError::internal("No path to region")),
        Some(_) | None => Ok(()),
    }
}

/// Namespace of the query, by default `default`.
pub fn namespace(query: Query<'_>) -> Str {
    match query.get("namespace") {
        Some(name) if !name.is_empty() => Str::new(name),
        Some(_) | None => Str::new_static(DEFAULT_NAMESPACE),
    }
}

/// Parses a duration as Go's `time.ParseDuration` does, in nanoseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    songline_lang::duration::parse(text).ok()
}

/// Index that a compare-and-set of a configuration expects. A parameter without a value is an error.
pub fn cas(query: Query<'_>) -> Result<Option<u64>, ApiError> {
    let text = query.get("cas");
    let number = text.map(|text| parse_uint(&text)).transpose();
    number.map_err(|error| ApiError::bad_request(format!("Error parsing cas value: {error}")))
}

/// Parses an unsigned number as Go's `strconv.ParseUint` does; the error is Go's text.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let reason = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseUint: parsing {}: {reason}", quote(text))
    })
}

/// Parses a signed number as Go's `strconv.ParseInt` does; the error is Go's text.
pub fn parse_int(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let reason = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {}: {reason}", quote(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (text, quoted) in [
            ("a b", r#""a b""#),
            ("\"'\\", r#""\"'\\""#),
            ("\u{1}\u{7}\n\u{7f}", r#""\x01\a\n\x7f""#),
            ("\u{85}\u{a0}\u{feff}\u{e0001}", r#""\u0085\u00a0\ufeff\U000e0001""#),
            ("\u{e4}\u{301}\u{1f600}", "\"\u{e4}\u{301}\u{1f600}\""),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }
}
