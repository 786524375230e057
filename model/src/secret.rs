//! Secret texts, which are neither printed nor written to JSON.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::Str;

/// A secret text. `Debug` and human-readable encodings hide it; only the log and checkpoints hold it.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(Str);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Str::new(text))
    }

    /// Returns the secret, to compare it or hand it to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret(none)" } else { "Secret(..)" })
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let shown = if s.is_human_readable() { "" } else { self.0.as_str() };
        s.serialize_str(shown)
    }
}
