//! Small values around bodies: headers of calls, and the opening of streaming calls.

use serde::{Deserialize, Serialize};

use crate::msgpack::{DecodeError, from_slice, to_vec};

/// Header of a request; the body follows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RequestHeader {
    /// The caller's number for the request.
    pub seq: u64,
    /// Name of the method: `Service.Method`.
    pub service_method: String,
}

/// Header of an answer; the body follows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ResponseHeader {
    /// Error of the call; empty on success.
    pub error: String,
    /// Number of the request.
    pub seq: u64,
    /// Method of the request.
    pub service_method: String,
}

/// Opening of a streaming call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StreamOpening {
    /// Name of the method: `Service.Method`.
    pub method: String,
}

/// Answer to the opening of a streaming call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StreamAnswer {
    /// Reason of a refusal; empty if the call is accepted.
    pub error: String,
}

/// Encodes one of the values above.
pub(super) fn bytes_of<T: Serialize>(header: &T) -> Vec<u8> {
    to_vec(header).expect("a header is a map of texts and numbers, which can be written")
}

/// Decodes one of the values above.
pub(super) fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> std::io::Result<T> {
    from_slice(bytes).map_err(|error: DecodeError| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}
