//! The msgpack dialect of the node RPC. What is said in it is the business of `message`.
//!
//! It is the old one: texts and bytes share the raw family (never `str8`, `bin`, `ext` or `float32`), unsigned integers are written in
//! unsigned forms and signed ones in signed forms, times are Go's binary form. Readers take every form there is.

mod marker;
mod skip;

#[cfg(test)]
mod tests;

pub use skip::{DEPTH_MAX, Scanner, SkipError, skip};
