//! Wrapper of stream messages, and the errors that end streams. Call headers are in `net`.

use songline_model::{Blob, Str};

use super::message;
use crate::RpcError;

message! {
    /// A message of a stream. An error ends the stream.
    plain StreamErrWrapper {
        /// Error that ends the stream.
        error: Option<StreamError>,
        /// Content of the message.
        payload: Option<Blob>,
    }
}

message! {
    /// Error that ends a stream.
    plain StreamError {
        /// HTTP status, if there is one.
        code: Option<i64>,
        /// Text for users.
        message: Str,
    }
}

impl StreamErrWrapper {
    /// Wraps a payload.
    pub fn payload(bytes: Vec<u8>) -> Self {
        Self { error: None, payload: Some(Blob(bytes)) }
    }

    /// Wraps the error that ends a stream. Errors without a code get 500.
    pub fn failed(error: &RpcError) -> Self {
        Self { error: Some(StreamError::from(error)), payload: None }
    }
}

impl From<&RpcError> for StreamError {
    fn from(error: &RpcError) -> Self {
        let code = match error {
            RpcError::Coded { code, .. } => *code,
            RpcError::Remote(_) | RpcError::NoLeader | RpcError::Lost(_) => 500,
        };
        Self { code: Some(code.into()), message: error.to_string().into() }
    }
}

impl From<StreamError> for RpcError {
    fn from(error: StreamError) -> Self {
        match error.code.and_then(|code| u16::try_from(code).ok()) {
            Some(code) => RpcError::Coded { code, text: error.message.into() },
            None => RpcError::Remote(error.message.into()),
        }
    }
}
