//! The small values around bodies: headers of calls and the opening of streaming ones.

use serde::{Deserialize, Serialize};

use crate::msgpack::{DecodeError, from_slice, to_vec};

/// What comes before the body of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RequestHeader {
    /// The caller's number for it.
    pub seq: u64,
    /// `Service.Method`.
    pub service_method: String,
}

/// What comes before the body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ResponseHeader {
    /// Why it failed; empty when it did not.
    pub error: String,
    /// The number of the request.
    pub seq: u64,
    /// The method of the request.
    pub service_method: String,
}

/// What opens a streaming call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StreamOpening {
    /// `Service.Method`.
    pub method: String,
}

/// What answers the opening of a streaming call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StreamAnswer {
    /// Why there is nothing to go on with; empty when there is.
    pub error: String,
}

/// One of the values above as bytes.
pub(super) fn bytes_of<T: Serialize>(header: &T) -> Vec<u8> {
    to_vec(header).expect("a header is a map of texts and numbers, which can be written")
}

/// One of the values above from bytes.
pub(super) fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> std::io::Result<T> {
    from_slice(bytes).map_err(|error: DecodeError| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}
