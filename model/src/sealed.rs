//! Ciphertext, held only by the log and checkpoints. Keys and encryption are in other crates.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Encrypted bytes. `Debug` and human-readable encodings hide them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Sealed(pub Vec<u8>);

impl Sealed {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.serialize_str("") } else { s.serialize_bytes(&self.0) }
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        serde_bytes::ByteBuf::deserialize(d).map(|bytes| Self(bytes.into_vec()))
    }
}
