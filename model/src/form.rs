//! Names of newtype structs that tell a binary encoder the type of a value.
//!
//! Most encoders, the log's among them, ignore the name and write the inner value.

/// A [`crate::Time`]: nanoseconds since 1970.
pub const TIME: &str = "$Time";
/// An id of 16 bytes, all zero for none.
pub const ID: &str = "$Id";
