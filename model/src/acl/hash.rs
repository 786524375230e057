//! BLAKE2b-256 over the texts of a row, to detect changed content. Clients see the hash, so the hashed bytes are
//! fixed.

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};

use crate::Blob;

/// Hashes a sequence of texts.
#[derive(Default)]
pub(super) struct Hasher(Blake2b<U32>);

impl Hasher {
    /// Adds a text without its length: the boundary between two texts is not part of the hash.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.0.update(text.as_bytes());
        self
    }

    /// Adds several texts without their lengths.
    pub(super) fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> &mut Self {
        for text in texts {
            self.text(text);
        }
        self
    }

    /// Adds a field with its name and its values, so that rows of different content never produce the same bytes.
    pub(super) fn field<'a>(&mut self, name: &str, values: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.sized(name);
        for value in values {
            self.0.update([1]);
            self.sized(value);
        }
        self.0.update([0]);
        self
    }

    fn sized(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    /// Returns the hash, 32 bytes.
    pub(super) fn finish(&mut self) -> Blob {
        Blob(self.0.finalize_reset().to_vec())
    }
}
