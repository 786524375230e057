//! The event stream as a request: which dialect, which format, from where. What streams is in `event`.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use tokio_stream::StreamExt;

use crate::error::ApiError;
use crate::event::{Dialect, Format, Interest, Start};
use crate::http::call::Call;
use crate::http::mux::{Capability, Methods, Mux};
use crate::http::params::{check_region, namespace, quote};
use crate::server::Server;

pub(super) fn routes<S: Server>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/event/stream", "", Capability::Topics, |call| Box::pin(stream(call)));
}

async fn stream<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    let query = call.query();
    let interest = Interest::parse(&namespace(query), query.all("topic"))
        .map_err(|error| ApiError::bad_request(format!("Invalid topic query: error parsing topics: {error}")))?;
    let index = plain_index(&query.text("index"))?;
    check_region(query, &call.server.info().region)?;
    if !call.server.info().enable_event_broker {
        return Err(ApiError::internal("EventBroker not configured"));
    }
    let (dialect, start) = start(&call, index.unwrap_or(u64::MAX))?;
    let format = format(&call)?;
    let subscription = call.server.events().subscribe(interest, format, dialect, start);
    let frames = subscription.into_stream(call.server.shutdown().clone());
    if index.is_none() {
        // The reference refuses a negative index, and then streams all the same.
        let refusal = tokio_stream::once(Ok(Bytes::from_static(b"Invalid index")));
        let mut response = Response::new(Body::from_stream(refusal.chain(frames)));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    }
    let mut response = Response::new(Body::from_stream(frames));
    let media = match format {
        Format::Json => "application/json",
        Format::Msgpack => "application/msgpack",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// `None`: a negative one.
fn plain_index(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(Some(0));
    }
    match text.parse::<i64>() {
        Ok(index) => Ok(u64::try_from(index).ok()),
        Err(_) => Err(ApiError::bad_request(format!("Unable to parse index: strconv.Atoi: parsing {}: invalid syntax", quote(text)))),
    }
}

/// Any parameter of ours asks for our dialect.
fn start<S: Server>(call: &Call<S>, index: u64) -> Result<(Dialect, Start), ApiError> {
    let query = call.query();
    for later in ["snapshot", "filter", "full"] {
        if query.has(later) {
            return Err(ApiError::bad_request(format!("the event stream does not know the parameter {later} yet")));
        }
    }
    if let Some(after) = query.get("after_index") {
        let after = after.parse().map_err(|_| ApiError::bad_request(format!("Unable to parse after_index: {}", quote(&after))))?;
        return Ok((Dialect::Ours, Start::After(after)));
    }
    match query.get("from").as_deref() {
        None => Ok((Dialect::Plain, Start::Plain(index))),
        Some("now") => Ok((Dialect::Ours, Start::Now)),
        Some(other) => Err(ApiError::bad_request(format!("Expect `now` for `from` query string parameter, got {other}"))),
    }
}

fn format<S: Server>(call: &Call<S>) -> Result<Format, ApiError> {
    match call.query().get("format").as_deref() {
        Some("msgpack") => return Ok(Format::Msgpack),
        Some("json") => return Ok(Format::Json),
        // The reference does not look at it.
        Some(_) | None => {}
    }
    let accepts = call.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let msgpack = accepts.flat_map(|value| value.split(',')).any(|media| {
        let media = media.split(';').next().unwrap_or_default().trim();
        media == "application/msgpack" || media == "application/x-msgpack"
    });
    Ok(if msgpack { Format::Msgpack } else { Format::Json })
}
