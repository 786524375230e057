//! `openapi.json`: description of this interface, generated from the routes.

use std::sync::OnceLock;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;

use crate::http::call::Call;
use crate::http::mux::{Capability, Methods, Mux};
use crate::server::Server;

/// Generated once: the routes do not change while the process runs.
static DOCUMENT: OnceLock<Bytes> = OnceLock::new();

pub(super) fn routes<S: Server>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/openapi.json", "", Capability::Anyone, |call| Box::pin(std::future::ready(Ok(show(&call)))));
}

fn show<S: Server>(call: &Call<S>) -> Response {
    let document = DOCUMENT.get_or_init(|| super::openapi_document::<S>(&call.server.info().version).to_string().into());
    let mut response = Response::new(Body::from(document.clone()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
