//! Any value of the dialect as a tree. The tree keeps the difference between two forms of a number, so that a value is
//! written again byte by byte. Rows and messages are not read this way.

use std::fmt;

use super::de::DecodeError;
use super::marker::{Head, Marker};
use super::{DEPTH_MAX, write};

/// A value.
#[derive(Clone, PartialEq)]
pub enum Tree {
    /// Nil: an absent pointer, list or map.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A signed integer, or any integer from 0 to 127.
    Int(i64),
    /// An unsigned integer above 127.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
    /// Text or bytes.
    Raw(Vec<u8>),
    /// A list.
    Array(Vec<Tree>),
    /// A map, in the order on the wire.
    Map(Vec<(Tree, Tree)>),
}

impl Tree {
    /// A text as a value.
    pub fn text(text: &str) -> Self {
        Tree::Raw(text.as_bytes().to_vec())
    }

    /// Reads one value; bytes after it are an error.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader { bytes, at: 0 };
        let tree = reader.value(0)?;
        if reader.at < bytes.len() {
            return Err(DecodeError::at(reader.at, "bytes after the value"));
        }
        Ok(tree)
    }

    /// Encodes the value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Tree::Nil => write::nil(out),
            Tree::Bool(b) => write::bool(out, *b),
            Tree::Int(n) => write::int(out, *n),
            Tree::UInt(n) => write::uint(out, *n),
            Tree::Float(n) => write::float(out, *n),
            Tree::Raw(bytes) => write::raw(out, bytes),
            Tree::Array(values) => {
                write::array(out, values.len());
                values.iter().for_each(|value| value.write(out));
            }
            Tree::Map(entries) => {
                write::map(out, entries.len());
                for (key, value) in entries {
                    key.write(out);
                    value.write(out);
                }
            }
        }
    }

    /// Value of a text key of a map.
    pub fn get(&self, name: &str) -> Option<&Tree> {
        let Tree::Map(entries) = self else { return None };
        entries.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
    }

    /// The text, if the value is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Tree::Raw(bytes) => std::str::from_utf8(bytes).ok(),
            Tree::Nil
            | Tree::Bool(_)
            | Tree::Int(_)
            | Tree::UInt(_)
            | Tree::Float(_)
            | Tree::Array(_)
            | Tree::Map(_) => None,
        }
    }

    /// The value with the keys of every map in byte order.
    #[must_use]
    pub fn sorted(self) -> Self {
        match self {
            Tree::Array(values) => Tree::Array(values.into_iter().map(Tree::sorted).collect()),
            Tree::Map(entries) => {
                let mut entries: Vec<_> =
                    entries.into_iter().map(|(key, value)| (key.sorted(), value.sorted())).collect();
                entries.sort_by_cached_key(|(key, _)| match key {
                    Tree::Raw(bytes) => bytes.clone(),
                    other => other.to_bytes(),
                });
                Tree::Map(entries)
            }
            plain @ (Tree::Nil | Tree::Bool(_) | Tree::Int(_) | Tree::UInt(_) | Tree::Float(_) | Tree::Raw(_)) => plain,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Tree, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::at(self.at, "value nests too deep"));
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let head = Head::read(rest).map_err(|_| DecodeError::at(self.at, "reserved byte 0xc1"))?;
        let Some(Head { marker, size }) = head else { return Err(DecodeError::ended(self.at)) };
        self.at += size;
        // Every value takes at least one byte, so no more than this can follow.
        let room = |len: u32, each: usize| (len as usize).min(rest.len() / each);
        Ok(match marker {
            Marker::Nil => Tree::Nil,
            Marker::Bool(b) => Tree::Bool(b),
            Marker::Int(n) => Tree::Int(n),
            Marker::UInt(n @ 0..=127) => Tree::Int(n as i64),
            Marker::UInt(n) => Tree::UInt(n),
            Marker::Float(n) => Tree::Float(n),
            Marker::Raw(len) | Marker::Bin(len) => Tree::Raw(self.take(len as usize)?.to_vec()),
            Marker::Ext(len) => Tree::Raw(self.take(len as usize + 1)?[1..].to_vec()),
            Marker::Array(len) => {
                let mut values = Vec::new();
                values.reserve_exact(room(len, 8).min(1024));
                for _ in 0..len {
                    values.push(self.value(depth + 1)?);
                }
                Tree::Array(values)
            }
            Marker::Map(len) => {
                let mut entries = Vec::new();
                entries.reserve_exact(room(len, 16).min(1024));
                for _ in 0..len {
                    let key = self.value(depth + 1)?;
                    entries.push((key, self.value(depth + 1)?));
                }
                Tree::Map(entries)
            }
        })
    }

    fn take(&mut self, len: usize) -> Result<&[u8], DecodeError> {
        let end = self.at.checked_add(len).ok_or_else(|| DecodeError::ended(self.at))?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| DecodeError::ended(self.bytes.len()))?;
        self.at = end;
        Ok(taken)
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Nil => f.write_str("nil"),
            Tree::Bool(b) => b.fmt(f),
            Tree::Int(n) => n.fmt(f),
            Tree::UInt(n) => write!(f, "{n}u"),
            Tree::Float(n) => n.fmt(f),
            Tree::Raw(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.fmt(f),
                Err(_) => write!(f, "{bytes:02x?}"),
            },
            Tree::Array(values) => f.debug_list().entries(values).finish(),
            Tree::Map(entries) => f.debug_map().entries(entries.iter().map(|(key, value)| (key, value))).finish(),
        }
    }
}
