//! Encoding of the objects in answers: JSON, or the msgpack of the node RPC for requests that the node RPC makes.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::Serialize;
use songline_rpc::msgpack;

use crate::error::ApiError;

/// Content type of an answer in the msgpack of the node RPC.
pub const NODE_RPC_TYPE: &str = "application/vnd.songline.node-rpc";

/// Encoding of an answer, as an extension of the request. An answer of another server is JSON all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// JSON.
    #[default]
    Json,
    /// The msgpack of the node RPC: the fields of the JSON answer, with typed times, durations and bytes.
    NodeRpc,
}

/// An answer in the msgpack of the node RPC.
pub(super) fn node_rpc<T: Serialize + ?Sized>(value: &T) -> Result<Response, ApiError> {
    let body = msgpack::shown(value).map_err(|error| ApiError::internal(format!("encoding the answer: {error}")))?;
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NODE_RPC_TYPE));
    Ok(response)
}
