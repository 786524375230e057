//! Parameters of the event stream: dialect, start position, filter and format. An error names the expected values:
//! a parameter of ours that was ignored would show other events than the client asked for.

use axum::http::{HeaderMap, header};
use songline_events::hub::{Dialect, Expression, Format, Start};

use crate::error::ApiError;
use crate::http::params::{Query, parse_bool, parse_uint, quote};

/// Parameters of ours. All but `format` select our dialect.
const OURS: [&str; 6] = ["after_index", "filter", "format", "from", "full", "snapshot"];

/// Parameters beside topics, namespace and format.
pub(super) struct Wish {
    pub(super) dialect: Dialect,
    pub(super) start: Start,
    pub(super) snapshot: bool,
    pub(super) expression: Option<Expression>,
}

impl Wish {
    /// Parses the parameters. `index` is the plain parameter, 0 when it is absent.
    pub(super) fn parse(query: Query<'_>, index: u64) -> Result<Self, ApiError> {
        refuse_undecodable(query, Dialect::Plain)?;
        let full = flag(query, "full")?;
        let snapshot = flag(query, "snapshot")?;
        let expression = expression(query)?;
        let after = after_index(query)?;
        let now = from_now(query)?;
        let dialect = match (full, snapshot || expression.is_some() || after.is_some() || now) {
            (true, _) => Dialect::Full,
            (false, true) => Dialect::Ours,
            (false, false) => Dialect::Plain,
        };
        if dialect.has_marks() {
            refuse_undecodable(query, dialect)?;
            // `from=now` adds nothing to a snapshot, so it does not conflict with one.
            refuse_two_starts([
                ("after_index", after.is_some()),
                ("from", now && !snapshot),
                ("snapshot", snapshot),
                ("index", index > 0),
            ])?;
        }
        let start = match (after, now) {
            // No entry has the highest index; one less leaves room for the stream to add one.
            (Some(after), _) => Start::After(after.min(u64::MAX - 1)),
            // A snapshot determines where its stream continues.
            (None, true) => Start::Now,
            (None, false) if !dialect.has_marks() => Start::Plain(index),
            (None, false) => index.checked_sub(1).map_or(Start::Oldest, Start::After),
        };
        Ok(Self { dialect, start, snapshot, expression })
    }
}

/// Refuses a parameter of ours that cannot be decoded, and in our dialects any other such parameter too.
fn refuse_undecodable(query: Query<'_>, dialect: Dialect) -> Result<(), ApiError> {
    let is_ours = |name: Option<&str>| name.is_some_and(|name| OURS.contains(&name));
    match query.undecodable().find(|(name, _)| dialect.has_marks() || is_ours(name.as_deref())) {
        None => Ok(()),
        Some((_, pair)) => Err(ApiError::bad_request(format!(
            "Unable to decode query string parameter {}: write % as %25 and ; as %3B",
            quote(pair)
        ))),
    }
}

fn refuse_two_starts(starts: [(&str, bool); 4]) -> Result<(), ApiError> {
    let mut given = starts.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
    match (given.next(), given.next()) {
        (Some(first), Some(second)) => Err(ApiError::bad_request(format!(
            "{first} and {second} both say where the stream begins: give one of them"
        ))),
        _ => Ok(()),
    }
}

/// The filter; an empty one counts as absent.
fn expression(query: Query<'_>) -> Result<Option<Expression>, ApiError> {
    let parsed = query.get("filter").filter(|text| !text.is_empty()).map(|text| Expression::parse(&text));
    parsed.transpose().map_err(|error| ApiError::bad_request(format!("failed to read filter expression: {error}")))
}

fn after_index(query: Query<'_>) -> Result<Option<u64>, ApiError> {
    let parsed = query.get("after_index").map(|text| {
        parse_uint(&text).map_err(|_| {
            ApiError::bad_request(format!(
                "Expect a number from 0 to {} for `after_index` query string parameter, got {}",
                u64::MAX,
                quote(&text)
            ))
        })
    });
    parsed.transpose()
}

fn from_now(query: Query<'_>) -> Result<bool, ApiError> {
    match query.get("from").as_deref() {
        None => Ok(false),
        Some("now") => Ok(true),
        Some(other) => {
            Err(ApiError::bad_request(format!("Expect `now` for `from` query string parameter, got {other}")))
        }
    }
}

/// A boolean parameter of ours.
fn flag(query: Query<'_>, name: &str) -> Result<bool, ApiError> {
    match query.get(name).as_deref() {
        None => Ok(false),
        Some(text) => parse_bool(text).ok_or_else(|| {
            ApiError::bad_request(format!(
                "Expect `true` or `false` for `{name}` query string parameter, got {}",
                quote(text)
            ))
        }),
    }
}

/// Format of the frames: the parameter, else what the client accepts.
pub(super) fn format(query: Query<'_>, headers: &HeaderMap) -> Result<Format, ApiError> {
    match query.get("format").as_deref() {
        None => Ok(accepted(headers)),
        Some("json") => Ok(Format::Json),
        Some("msgpack") => Ok(Format::Msgpack),
        Some(other) => Err(ApiError::bad_request(format!(
            "Expect `json` or `msgpack` for `format` query string parameter, got {}",
            quote(other)
        ))),
    }
}

/// The preferred format of the `Accept` headers: msgpack if it is listed with a quality above 0 that is not below that
/// of JSON.
fn accepted(headers: &HeaderMap) -> Format {
    let (mut json, mut msgpack) = (0.0, 0.0);
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for (name, quality) in values.flat_map(|value| value.split(',')).map(weighed) {
        match name {
            "application/json" => json = quality.max(json),
            "application/msgpack" | "application/x-msgpack" => msgpack = quality.max(msgpack),
            _ => {}
        }
    }
    if msgpack > 0.0 && msgpack >= json { Format::Msgpack } else { Format::Json }
}

/// A media type of an `Accept` header and its quality, which is 1 unless it is given.
fn weighed(media: &str) -> (&str, f32) {
    let mut parts = media.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let given = parts.filter_map(|part| part.split_once('=')).find(|(key, _)| key.trim().eq_ignore_ascii_case("q"));
    (name, given.and_then(|(_, quality)| quality.trim().parse().ok()).unwrap_or(1.0))
}
