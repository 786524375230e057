//! Rolling digest: shows whether two servers hold the same rows, without reading the rows.
//!
//! A table's digest is the sum modulo 2^128 of its rows' hashes, so a write costs one hash, and the order of rows does
//! not matter. The digest detects divergence and damage; it does not resist an attacker who chooses rows.

use std::fmt;

use serde::Serialize;
use songline_model::KeyBytes;

/// Digest of a row, a table or the whole state, 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest([u8; 16]);

impl Digest {
    /// The digest of no rows.
    pub const ZERO: Digest = Digest([0; 16]);

    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The first 16 bytes of BLAKE3 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let hash = blake3::hash(bytes);
        let (first, _) = hash.as_bytes().split_first_chunk().expect("a BLAKE3 hash has 32 bytes");
        Self(*first)
    }

    /// The digest of both sets of rows together.
    #[must_use]
    pub fn plus(self, other: Digest) -> Digest {
        Self(u128::from_le_bytes(self.0).wrapping_add(u128::from_le_bytes(other.0)).to_le_bytes())
    }

    pub(crate) fn minus(self, other: Digest) -> Digest {
        Self(u128::from_le_bytes(self.0).wrapping_sub(u128::from_le_bytes(other.0)).to_le_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Appends `row` as msgpack with named fields, as the log encodes it.
pub(crate) fn encode<R: Serialize>(row: &R, out: &mut Vec<u8>) {
    row.serialize(&mut rmp_serde::Serializer::new(out).with_struct_map())
        .expect("rows have only texts as keys, so they encode");
}

/// The hash of one row; `scratch` is cleared and reused.
pub(crate) fn row<T: crate::table::TableType>(key: &T::Key, row: &T::Row, scratch: &mut Vec<u8>) -> Digest {
    scratch.clear();
    scratch.extend_from_slice(T::TABLE.name().as_bytes());
    scratch.push(0);
    let start = scratch.len();
    scratch.extend_from_slice(&[0; 4]);
    KeyBytes::write_to(key, scratch);
    let length = u32::try_from(scratch.len() - start - 4).expect("a key is far below 4 GiB");
    scratch[start..start + 4].copy_from_slice(&length.to_le_bytes());
    T::encode(row, scratch);
    Digest::of(scratch)
}
