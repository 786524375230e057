//! A value kept as its bytes, to be passed on without decoding.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::de::DecodeError;
use super::marker::{Head, Marker};
use super::ser::EncodeError;
use super::write;

/// Marker name by which serializer and deserializer recognise raw values.
pub(super) const RAW: &str = "$Raw";

/// Bytes of one value of the dialect. Only this dialect can serialize and deserialize it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawValue(pub Bytes);

impl RawValue {
    /// Encodes a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, EncodeError> {
        Ok(Self(super::to_vec(value)?.into()))
    }

    /// Decodes the value.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, DecodeError> {
        super::from_slice(&self.0)
    }

    /// An empty map.
    pub fn empty() -> Self {
        Self(Bytes::from_static(&[0x80]))
    }
}

impl Default for RawValue {
    fn default() -> Self {
        Self(Bytes::from_static(&[0xc0]))
    }
}

impl Serialize for RawValue {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        struct Spliced<'a>(&'a [u8]);
        impl Serialize for Spliced<'_> {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_bytes(self.0)
            }
        }
        s.serialize_newtype_struct(RAW, &Spliced(&self.0))
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_newtype_struct(RAW, RawVisitor)
    }
}

struct RawVisitor;

impl de::Visitor<'_> for RawVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the node RPC's dialect")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<RawValue, E> {
        Ok(RawValue(Bytes::copy_from_slice(bytes)))
    }
}

/// Merges two maps: the fields of `more` follow those of `row`.
pub fn merged<T: Serialize + ?Sized, U: Serialize + ?Sized>(row: &T, more: &U) -> Result<RawValue, EncodeError> {
    let (row, more) = (super::to_vec(row)?, super::to_vec(more)?);
    let (fields, fields_at) = map_of(&row)?;
    let (others, others_at) = map_of(&more)?;
    let mut out = Vec::with_capacity(row.len() + more.len());
    write::map(&mut out, fields + others);
    out.extend_from_slice(&row[fields_at..]);
    out.extend_from_slice(&more[others_at..]);
    Ok(RawValue(out.into()))
}

/// Number of entries of a map, and the offset of the first.
fn map_of(bytes: &[u8]) -> Result<(usize, usize), EncodeError> {
    match Head::read(bytes) {
        Ok(Some(Head { marker: Marker::Map(len), size })) => Ok((len as usize, size)),
        Ok(_) | Err(_) => Err(serde::ser::Error::custom("only maps can be put together")),
    }
}
