//! The msgpack dialect of the node RPC. Message types are in `message`.
//!
//! The dialect is the old one: texts and bytes share the raw family (never `str8`, `bin`, `ext` or `float32`). Unsigned
//! integers are written in unsigned forms and signed ones in signed forms. Times are Go's binary form, ids are texts.
//! Readers accept every form.
//!
//! `to_vec` writes whole rows, for nodes and servers. `shown` writes what JSON shows, for users.

mod de;
mod marker;
mod raw;
mod ser;
mod skip;
mod texts;
mod time;
mod tree;
mod write;

#[cfg(test)]
mod tests;

pub use de::{DecodeError, from_slice};
pub use raw::{RawValue, merged};
pub use ser::{EncodeError, shown, to_vec};
pub use skip::{DEPTH_MAX, Scanner, SkipError, skip};
pub use time::ZERO_TIME;
pub use tree::Tree;
