//! The event stream as a request: what it asks for, whether its caller may, and the response. `wish` parses the
//! parameters. The stream itself is in `songline_events::hub`.

mod permit;
mod wish;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use songline_events::hub::{Format, Interest, Start};
use tokio_stream::StreamExt;

use crate::error::ApiError;
use crate::http::call::{Call, error_response};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::{Query, check_region, namespace, parse_duration, parse_int, stale_error};
use crate::server::Reads;

use permit::TokenPermit;
use wish::Wish;

/// Marks the request of an event stream that the node RPC makes for a caller who wants only new events: the stream
/// begins with the next entry. In a query that would need a parameter of ours, and so another dialect.
#[derive(Debug, Clone, Copy)]
pub struct OnlyNew;

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
    let format = wish::format(query, &call.headers)?;
    let refusal = refusal(query, index);
    // A decoder of msgpack could not read a text before the frames.
    if !refusal.is_empty() && (wish.dialect.has_marks() || format == Format::Msgpack) {
        return Err(ApiError::bad_request(refusal));
    }
    let start = if call.only_new { Start::Now } else { wish.start };
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
    let mut subscription = call.server.events().subscribe(interest, format, wish.dialect, start);
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
