//! Opaque bytes: standard base64 in JSON, binary in the log.

use std::fmt;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that nobody here looks into.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Blob(pub Vec<u8>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.serialize_str(&STANDARD.encode(&self.0)) } else { s.serialize_bytes(&self.0) }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() { d.deserialize_str(BlobVisitor) } else { d.deserialize_byte_buf(BlobVisitor) }
    }
}

struct BlobVisitor;

impl serde::de::Visitor<'_> for BlobVisitor {
    type Value = Blob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes, or base64 text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Blob, E> {
        STANDARD.decode(text).map(Blob).map_err(|error| E::custom(go_text(text, error)))
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
        Ok(Blob(bytes.to_vec()))
    }
}

/// What Go says about a text that is no base64.
fn go_text(text: &str, error: DecodeError) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
        DecodeError::InvalidLength(length) => length - length % 4,
        // The last four letters are not four.
        DecodeError::InvalidPadding => text.len() - text.len() % 4,
    };
    format!("illegal base64 data at input byte {at}")
}
