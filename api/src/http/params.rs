//! The parameters that most routes share, read from the query text in the reference's order. Parameters of one route are read there.

use std::borrow::Cow;
use std::time::Duration;

use songline_model::{DEFAULT_NAMESPACE, Str};

use crate::error::ApiError;

/// Longest time a blocking query waits, and the time it waits unless it says otherwise.
pub const WAIT_MAX: Duration = Duration::from_secs(300);

/// A query text. It is decoded where it is asked: most requests have none.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a>(pub &'a str);

impl<'a> Query<'a> {
    /// The first value of a parameter.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.all(name).next()
    }

    /// The first value, empty when there is none.
    pub fn text(self, name: &str) -> Cow<'a, str> {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter, in order.
    pub fn all(self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        self.pairs().filter(move |(key, _)| key == name).map(|(_, value)| value)
    }

    /// Whether the parameter is there, with or without a value.
    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A boolean as Go reads it; absent or empty is `None`.
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

    /// A word that counts without a value, too, such as `stale`.
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
        return super::mux::unescape(&spaced).map(|decoded| Cow::Owned(decoded.into_owned()));
    }
    super::mux::unescape(text)
}

/// A boolean as Go's `strconv.ParseBool` reads it.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A text in Go's double quotes.
pub fn quote(text: &str) -> String {
    format!("{text:?}")
}

/// The parameters of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadParams {
    /// Namespace; `*` is all of them where a list knows it.
    pub namespace: Str,
    /// Whether any server may answer from what it has.
    pub stale: bool,
    /// What ids have to start with.
    pub prefix: String,
    /// Rows a page; 0 is no paging.
    pub per_page: i32,
    /// Where the page starts.
    pub next_token: String,
    /// A filter expression.
    pub filter: String,
    /// Whether the order is turned round.
    pub reverse: bool,
    /// How long to wait.
    pub wait: Duration,
    /// Answer when the index is above this one; 0 does not wait.
    pub min_index: u64,
}

impl ReadParams {
    /// Reads them; `region` is this server's.
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

    /// Whether every namespace is meant.
    pub fn all_namespaces(&self) -> bool {
        self.namespace == "*"
    }

    /// Whether a row of this namespace is meant.
    pub fn in_namespace(&self, namespace: &str) -> bool {
        self.all_namespaces() || self.namespace == namespace
    }
}

/// What is said about a `stale` that is no boolean. The reference says it, and then answers the query all the same.
pub fn stale_error(query: Query<'_>) -> Option<String> {
    let stale = query.get("stale").filter(|stale| !stale.is_empty() && parse_bool(stale).is_none())?;
    Some(format!("Expect `true` or `false` for `stale` query string parameter, got {stale}"))
}

/// Refuses a request for a region that nobody here knows.
pub fn check_region(query: Query<'_>, region: &str) -> Result<(), ApiError> {
    match query.get("region") {
        Some(asked) if !asked.is_empty() && asked != region => Err(ApiError::internal("No path to region")),
        Some(_) | None => Ok(()),
    }
}

/// The namespace of the query, `default` unless it says otherwise.
pub fn namespace(query: Query<'_>) -> Str {
    match query.get("namespace") {
        Some(name) if !name.is_empty() => Str::new(name),
        Some(_) | None => Str::new_static(DEFAULT_NAMESPACE),
    }
}

/// A span as Go's `time.ParseDuration` reads it, in nanoseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    songline_lang::duration::parse(text).ok()
}

/// The index that a compare-and-set of a configuration expects. A parameter without a value is no number.
pub fn cas(query: Query<'_>) -> Result<Option<u64>, ApiError> {
    let text = query.get("cas");
    let number = text.map(|text| parse_uint(&text)).transpose();
    number.map_err(|error| ApiError::bad_request(format!("Error parsing cas value: {error}")))
}

/// An unsigned number as Go's `strconv.ParseUint` reads it, or what that says.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let reason = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseUint: parsing {}: {reason}", quote(text))
    })
}

/// A signed number as Go's `strconv.ParseInt` reads it, or what that says.
pub fn parse_int(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let reason = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {}: {reason}", quote(text))
    })
}
