//! The event stream as a request: dialect, format and start position. The stream itself is in `event`.

mod permit;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use songline_events::hub::{Dialect, Expression, Format, Interest, Start};
use tokio_stream::StreamExt;

use crate::error::ApiError;
use crate::http::call::{Call, error_response};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::{Query, check_region, namespace, parse_bool, parse_duration, parse_int, quote, stale_error};
use crate::server::Reads;

use permit::TokenPermit;

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/event/stream", "", Capability::Topics, |call| Box::pin(stream(call)));
}

async fn stream<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let query = call.query();
    let index = plain_index(&query.text("index"))?;
    let interest = Interest::parse(&namespace(query), query.all("topic"))
        .map_err(|error| ApiError::bad_request(format!("Invalid topic query: error parsing topics: {error}")))?;
    let server = Arc::clone(&call.server);
    Ok(opened(call, index, interest).await.unwrap_or_else(|error| {
        let mut response = error_response(&*server, error);
        set_stream_headers(&mut response, Format::Json);
        response
    }))
}

/// The headers of a stream. As in the reference, errors that come after the topics were parsed have them too.
fn set_stream_headers(response: &mut Response, format: Format) {
    let media = match format {
        Format::Json => "application/json",
        Format::Msgpack => "application/msgpack",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}

async fn opened<S: Reads>(call: Call<S>, index: Option<u64>, interest: Interest) -> Result<Response, ApiError> {
    let query = call.query();
    check_region(query, &call.server.info().region)?;
    if !call.server.info().enable_event_broker {
        return Err(ApiError::internal("EventBroker not configured"));
    }
    let wish = Wish::parse(query, index.unwrap_or(u64::MAX))?;
    let refusal = refusal(query, index);
    if !refusal.is_empty() && wish.dialect.has_marks() {
        return Err(ApiError::bad_request(refusal));
    }
    let format = format(&call)?;
    let interest = interest.with_expression(wish.expression);
    let caller = call.caller()?;
    let (interest, permit) = if call.server.info().acl.enabled {
        // A caller without an ACL token may not subscribe, whatever the anonymous policy permits.
        let may = caller.token().is_some() && interest.is_permitted(caller.acl());
        if !may {
            return Err(ApiError::internal("Permission denied"));
        }
        let interest = interest.readable_by(caller.shared_acl());
        let permit = TokenPermit::new(&call, interest.clone());
        (interest, Some(permit))
    } else {
        (interest, None)
    };
    let mut subscription = call.server.events().subscribe(interest, format, wish.dialect, wish.start);
    if let Some(permit) = permit {
        subscription = subscription.permitted_by(Arc::new(permit));
    }
    if wish.snapshot {
        subscription = subscription.beginning_with(call.server.view());
    }
    if let Some(stalled) = &call.stalled {
        subscription = subscription.watched_by(Arc::clone(&stalled.0));
    }
    let frames = subscription.into_stream(call.server.shutdown().clone());
    if !refusal.is_empty() {
        // The reference writes the error for such parameters, and then streams nevertheless.
        let refusal = tokio_stream::once(Ok(Bytes::from(refusal)));
        let mut response = Response::new(Body::from_stream(refusal.chain(frames)));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    }
    let mut response = Response::new(Body::from_stream(frames));
    set_stream_headers(&mut response, format);
    Ok(response)
}

/// The index of a plain request; `None` for a negative one.
fn plain_index(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(Some(0));
    }
    match parse_int(text) {
        Ok(index) => Ok(u64::try_from(index).ok()),
        Err(error) => {
            Err(ApiError::bad_request(format!("Unable to parse index: {}", error.replace("ParseInt", "Atoi"))))
        }
    }
}

/// Errors in parameters that all reads have and that a stream does not use. Empty: there is no error.
fn refusal(query: Query<'_>, index: Option<u64>) -> String {
    let mut said = stale_error(query).unwrap_or_default();
    let wait = query.text("wait");
    if !wait.is_empty() && parse_duration(&wait).is_none() {
        said.push_str("Invalid wait time");
    } else if index.is_none() {
        said.push_str("Invalid index");
    }
    said
}

/// Parameters beside topics. Each parameter of ours selects our dialect.
struct Wish {
    dialect: Dialect,
    start: Start,
    snapshot: bool,
    expression: Option<Expression>,
}

impl Wish {
    /// Parses the parameters. `index` is the plain parameter, 0 when it is absent.
    fn parse(query: Query<'_>, index: u64) -> Result<Self, ApiError> {
        let full = flag(query, "full")?;
        let snapshot = flag(query, "snapshot")?;
        let expression = match query.get("filter").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(
                Expression::parse(&text)
                    .map_err(|error| ApiError::bad_request(format!("failed to read filter expression: {error}")))?,
            ),
        };
        let after = match query.get("after_index") {
            None => None,
            Some(text) => Some(
                text.parse::<u64>()
                    .map_err(|_| ApiError::bad_request(format!("Unable to parse after_index: {}", quote(&text))))?,
            ),
        };
        let now = match query.get("from").as_deref() {
            None => false,
            Some("now") => true,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "Expect `now` for `from` query string parameter, got {other}"
                )));
            }
        };
        // `from=now` adds nothing to a snapshot, so it does not conflict with one.
        let starts = [
            ("after_index", after.is_some()),
            ("from", now && !snapshot),
            ("snapshot", snapshot),
            ("index", index > 0),
        ];
        let mut given = starts.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
        let ours = full || snapshot || expression.is_some() || after.is_some() || now;
        if let (true, Some(first), Some(second)) = (ours, given.next(), given.next()) {
            return Err(ApiError::bad_request(format!(
                "{first} and {second} both say where the stream begins: give one of them"
            )));
        }
        let dialect = match (ours, full) {
            (false, _) => Dialect::Plain,
            (true, false) => Dialect::Ours,
            (true, true) => Dialect::Full,
        };
        let start = match (after, now) {
            // No entry has the highest index; one less leaves room for the stream to add one.
            (Some(after), _) => Start::After(after.min(u64::MAX - 1)),
            // A snapshot determines where its stream continues.
            (None, true) => Start::Now,
            (None, false) if ours && index > 0 => Start::After(index - 1),
            (None, false) => Start::Plain(index),
        };
        Ok(Self { dialect, start, snapshot, expression })
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

fn format<S>(call: &Call<S>) -> Result<Format, ApiError> {
    match call.query().get("format").as_deref() {
        Some("msgpack") => return Ok(Format::Msgpack),
        Some("json") => return Ok(Format::Json),
        // The reference ignores other values.
        Some(_) | None => {}
    }
    let accepts = call.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let msgpack = accepts.flat_map(|value| value.split(',')).any(|media| {
        let media = media.split(';').next().unwrap_or_default().trim();
        media == "application/msgpack" || media == "application/x-msgpack"
    });
    Ok(if msgpack { Format::Msgpack } else { Format::Json })
}
