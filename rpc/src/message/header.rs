//! What messages of streams are wrapped in, and the errors that end them. Headers are the business of `net`.

use songline_model::{Blob, Str};

use super::message;
use crate::RpcError;

message! {
    /// A message of a stream. An error ends it.
    plain StreamErrWrapper {
        /// Why it ends.
        error: Option<StreamError>,
        /// What is said.
        payload: Option<Blob>,
    }
}

message! {
    /// Why a stream ends.
    plain StreamError {
        /// A status of HTTP, where there is one.
        code: Option<i64>,
        /// For people.
        message: Str,
    }
}

impl StreamErrWrapper {
    /// Something that is said.
    pub fn payload(bytes: Vec<u8>) -> Self {
        Self { error: None, payload: Some(Blob(bytes)) }
    }

    /// The end.
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
