//! Bytes of the node RPC through the public interface: captured, random and broken ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod captured;
mod differences;
mod hostile;
