//! Secret of a token: a UUID that is neither printed nor written to JSON.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::ids::{InvalidId, deserialize_uuid, serialize_uuid};

/// Credential that a caller presents. `Debug` and human-readable encodings hide the secret; only the log and
/// checkpoints hold it.
///
/// Compared by value: the same digits in capitals are the same secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SecretId(Uuid);

impl SecretId {
    /// The absent secret.
    pub const NIL: Self = Self(Uuid::nil());

    /// The secret of these 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the secret as a text of 36 characters, to hand it to its owner.
    pub fn reveal(&self) -> String {
        if self.is_none() { String::new() } else { self.0.hyphenated().to_string() }
    }

    /// Whether the secret is absent.
    pub fn is_none(&self) -> bool {
        self.0.is_nil()
    }
}

impl From<Uuid> for SecretId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl FromStr for SecretId {
    type Err = InvalidId;

    /// Parses 36 characters. The error does not repeat the text: the text may be a secret with a typing error.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId("secret".to_owned());
        if text.len() != 36 {
            return Err(invalid());
        }
        Uuid::try_parse(text).map(Self).map_err(|_| invalid())
    }
}

impl fmt::Debug for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "SecretId(none)" } else { "SecretId(..)" })
    }
}

impl Serialize for SecretId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.serialize_str("") } else { serialize_uuid(&self.0, s) }
    }
}

impl<'de> Deserialize<'de> for SecretId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        deserialize_uuid(d).map(Self)
    }
}
