//! What an encoder that is no text may want to know of a value beside its bytes: the names under which such values are written.
//!
//! They are names of newtype structs, which most encoders (the log's among them) write as what is inside.

/// A [`crate::Time`]: nanoseconds since 1970.
pub const TIME: &str = "$Time";
/// An id of 16 bytes, all zero for none.
pub const ID: &str = "$Id";
