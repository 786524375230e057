//! The msgpack dialect of the node RPC. What is said in it is the business of `message`.
//!
//! It is the old one: texts and bytes share the raw family (never `str8`, `bin`, `ext` or `float32`), unsigned integers are written in
//! unsigned forms and signed ones in signed forms, times are Go's binary form, ids are texts. Readers take every form there is.

mod de;
mod marker;
mod raw;
mod ser;
mod skip;
mod time;
mod tree;
mod write;

#[cfg(test)]
mod tests;

pub use de::{DecodeError, from_slice};
pub use raw::{RawValue, merged};
pub use ser::{EncodeError, to_vec};
pub use skip::{DEPTH_MAX, Scanner, SkipError, skip};
pub use time::ZERO_TIME;
pub use tree::Tree;
