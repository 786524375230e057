//! Opaque bytes: standard base64 in JSON, binary in the log.

use std::fmt;

use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::form;

/// Bytes that this program does not interpret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Blob(pub Vec<u8>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

/// As base64.
impl fmt::Display for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(&self.0))
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { form::text(form::BLOB, self, s) } else { s.serialize_bytes(&self.0) }
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
        Blob::from_base64(text).map_err(E::custom)
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
        Ok(Blob(bytes.to_vec()))
    }
}

/// A text that is not base64, worded as in Go; holds the offset in bytes of the first invalid byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub struct NotBase64(pub usize);

impl Blob {
    /// Decodes base64 as Go does: unused bits of the last character are ignored.
    pub fn from_base64(text: &str) -> Result<Self, NotBase64> {
        const GO: GeneralPurpose =
            GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
        GO.decode(text).map(Self).map_err(|error| match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => NotBase64(at),
            DecodeError::InvalidLength(length) => NotBase64(length - length % 4),
            // An incomplete last group is reported at its beginning.
            DecodeError::InvalidPadding if !text.contains('=') => NotBase64(text.len() - text.len() % 4),
            DecodeError::InvalidPadding => NotBase64(text.len()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Blob, NotBase64};

    #[test]
    fn invalid_base64_is_refused_with_its_offset() {
        assert_eq!(Blob::from_base64("5K9OtfP7efFrNKe5WCQvXvnaXJ5cWP0SvXiwe0kkjM4=").map(|blob| blob.0.len()), Ok(32));
        assert_eq!(Blob::from_base64("aGl="), Ok(Blob(b"hi".to_vec())));
        for (text, at) in [("short", 4), ("ab!d", 2), ("!!", 0), ("aGk", 0)] {
            assert_eq!(Blob::from_base64(text), Err(NotBase64(at)), "{text}");
        }
        let error = serde_json::from_value::<Blob>("!!".into()).unwrap_err();
        assert_eq!(error.to_string(), "illegal base64 data at input byte 0");
    }
}
