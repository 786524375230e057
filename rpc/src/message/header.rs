//! What precedes a request and an answer, and the errors of streams.

use serde::{Deserialize, Serialize};
use songline_model::{Blob, Str};

use super::message;
use crate::RpcError;

/// What texts of errors begin with that carry a status for HTTP.
const CODED: &str = "RPC Error:: ";

/// What precedes a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RequestHeader {
    /// Counts up for each process; the answer carries it back.
    pub seq: u64,
    /// `Service.Method`.
    pub service_method: Str,
}

/// What precedes an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ResponseHeader {
    /// Why there is no answer; empty when there is one. An empty map follows an error.
    pub error: Str,
    /// Of the request.
    pub seq: u64,
    /// Of the request.
    pub service_method: Str,
}

message! {
    /// What a stream begins with.
    plain StreamingRequest {
        /// `Service.Method`.
        method: Str,
    }
}

message! {
    /// What is answered to that, before the request itself is sent.
    plain StreamOpened {
        /// Why there will be no stream; empty when there is one.
        error: Str,
    }
}

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

/// An error as the header of an answer has it.
pub fn error_text(error: &RpcError) -> String {
    match error {
        RpcError::Coded { code, text } => format!("{CODED}{code},{text}"),
        RpcError::Remote(_) | RpcError::NoLeader | RpcError::Lost(_) => error.to_string(),
    }
}

/// The error of a text that came in the header of an answer.
pub fn error_of_text(text: &str) -> RpcError {
    if text == RpcError::NoLeader.to_string() {
        return RpcError::NoLeader;
    }
    // The callers on the way may have put something before it.
    let coded = text.find(CODED).and_then(|at| text[at + CODED.len()..].split_once(','));
    match coded.map(|(code, text)| (code.parse(), text)) {
        Some((Ok(code), text)) => RpcError::Coded { code, text: text.to_owned() },
        Some((Err(_), _)) | None => RpcError::remote(text),
    }
}
