//! `openapi.json`: description of this interface, generated from the routes.

use std::sync::OnceLock;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;

use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Handler, Methods, Mux};
use crate::server::Agent;

/// Generated once: the routes do not change while the process runs.
static DOCUMENT: OnceLock<Bytes> = OnceLock::new();

/// Adds the route. `handler` calls [`show`] with the routes, which this route is one of.
pub(super) fn routes<S>(mux: &mut Mux<S>, handler: Handler<S>) {
    mux.add(Methods::Get, "/v1/openapi.json", "", Capability::Anyone, handler);
}

/// The response with the document that `document` makes for a version.
pub(super) fn show<S: Agent>(call: &Call<S>, document: fn(&str) -> serde_json::Value) -> Response {
    let document = DOCUMENT.get_or_init(|| document(&call.server.info().version).to_string().into());
    let mut response = Response::new(Body::from(document.clone()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
