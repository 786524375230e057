//! Names of newtype structs that tell an encoder the type of a value.
//!
//! Most encoders, those of JSON and the log among them, ignore the name and write the inner value.

use std::fmt::Display;

use serde::{Serialize, Serializer};

/// A [`crate::Time`]: nanoseconds since 1970, or a text in encodings for people.
pub const TIME: &str = "$Time";
/// An id of 16 bytes, all zero for none.
pub const ID: &str = "$Id";
/// A [`crate::Blob`] as base64, in encodings for people.
pub const BLOB: &str = "$Blob";
/// A duration in Go's notation, in encodings for people. Empty for the zero duration.
pub const SPAN: &str = "$Span";

/// The text of a value of another type, under the name of that type.
pub(crate) fn text<S: Serializer>(name: &'static str, value: &impl Display, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_newtype_struct(name, &Text(value))
}

/// Writes a value as its text.
#[derive(Debug, Clone, Copy)]
pub struct Text<T>(pub T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}
