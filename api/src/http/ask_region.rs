//! A server's own requests to another region, over HTTP: to one server there after another, until one can be reached.
//! Requests of callers that name another region are passed on in `region`.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use songline_model::Secret;

use crate::error::ApiError;
use crate::http::call::{BODY_BYTES_MAX, read_body};
use crate::server::{PassFailure, Regions};

/// Header of a request's token.
const TOKEN: &str = "x-nomad-token";

/// A request to another region.
#[derive(Debug, Clone)]
pub struct ToRegion<'a> {
    /// Name of the region.
    pub region: &'a str,
    /// Method.
    pub method: Method,
    /// Path, encoded.
    pub path: String,
    /// Query, encoded, without the region.
    pub query: String,
    /// Headers without the token.
    pub headers: HeaderMap,
    /// Token that the region has to accept; empty: none.
    pub token: Secret,
    /// Body.
    pub body: Bytes,
    /// Timeout of the whole answer.
    pub within: Duration,
}

/// The complete answer of another region.
#[derive(Debug, Clone)]
pub struct OfRegion {
    /// Status.
    pub status: StatusCode,
    /// `X-Nomad-Index`, if the answer has one.
    pub index: Option<u64>,
    /// Body.
    pub body: Bytes,
}

/// Reasons why another region did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// No server of the region is known, so nothing was sent.
    #[error("No path to region")]
    NoPath,
    /// No server of the region can be reached, so nothing was sent.
    #[error("rpc error: failed to get conn: {0}")]
    NotSent(String),
    /// The request was sent and its answer did not come: it may or may not have been carried out.
    #[error("rpc error: {0}")]
    Lost(String),
}

impl From<NoAnswer> for ApiError {
    fn from(error: NoAnswer) -> Self {
        Self::internal(error.to_string())
    }
}

/// Sends a request to another region and returns the whole answer, whatever its status.
///
/// # Errors
/// No server of the region is known or can be reached, or the answer did not come in time.
pub async fn ask_region<S: Regions>(server: &S, ask: ToRegion<'_>) -> Result<OfRegion, NoAnswer> {
    let within = ask.within;
    let answered = async {
        let response = pass_to(server, server.servers_of_region(ask.region), request(ask)?).await?;
        let (head, body) = response.into_parts();
        let index = head.headers.get("x-nomad-index").and_then(|value| value.to_str().ok()?.parse().ok());
        let body = read_body(body, BODY_BYTES_MAX).await.map_err(|error| NoAnswer::Lost(error.text.into_owned()))?;
        Ok(OfRegion { status: head.status, index, body })
    };
    let late = || NoAnswer::Lost(format!("no answer within {} s", within.as_secs()));
    tokio::time::timeout(within, answered).await.unwrap_or_else(|_| Err(late()))
}

/// Has one of these servers of another region answer. A request that may have arrived is not sent again.
pub(super) async fn pass_to<S: Regions>(
    server: &S,
    servers: Vec<String>,
    mut request: Request,
) -> Result<Response, NoAnswer> {
    if servers.is_empty() {
        return Err(NoAnswer::NoPath);
    }
    let mut reason = String::new();
    for address in servers {
        match server.pass_to_region(&address, request).await {
            Ok(response) => return Ok(response),
            Err(PassFailure::NotSent { request: unsent, why }) => (request, reason) = (*unsent, why),
            Err(PassFailure::Lost(why)) => return Err(NoAnswer::Lost(why)),
        }
    }
    Err(NoAnswer::NotSent(reason))
}

fn request(ask: ToRegion<'_>) -> Result<Request, NoAnswer> {
    let joint = if ask.query.is_empty() { "" } else { "&" };
    // The first value of a parameter counts, so the region comes first.
    let target = format!("{}?region={}{joint}{}", ask.path, query_value(ask.region), ask.query);
    let mut request = Request::builder().method(ask.method).uri(target);
    if !ask.token.is_empty() {
        request = request.header(TOKEN, ask.token.reveal());
    }
    let mut request = request.body(Body::from(ask.body)).map_err(|error| NoAnswer::NotSent(error.to_string()))?;
    request.headers_mut().extend(ask.headers);
    Ok(request)
}

/// A value of a query, encoded.
pub fn query_value(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
