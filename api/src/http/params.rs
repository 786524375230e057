//! Parameters that most routes share, parsed in the reference's order. Handlers parse the parameters of single
//! routes.

use std::borrow::Cow;
use std::time::Duration;

pub use songline_model::quote;
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

    /// Pairs that cannot be decoded, as written, each with its name if that can be decoded. As in the reference, the
    /// other methods ignore them.
    pub fn undecodable(self) -> impl Iterator<Item = (Option<Cow<'a, str>>, &'a str)> {
        self.written().filter(|pair| decode_pair(pair).is_none()).map(|pair| {
            let name = pair.split_once('=').map_or(pair, |(name, _)| name);
            (decode(name), pair)
        })
    }

    fn pairs(self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        self.written().filter_map(decode_pair)
    }

    /// The pairs as written.
    fn written(self) -> impl Iterator<Item = &'a str> {
        self.0.split('&').filter(|pair| !pair.is_empty())
    }
}

fn decode_pair(pair: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    if pair.contains(';') {
        return None;
    }
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Some((decode(key)?, decode(value)?))
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
        // The reference's agent parses the others, and a server then refuses the region.
        check_region(query, region)?;
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
