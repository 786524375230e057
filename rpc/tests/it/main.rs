//! The bytes of the node RPC from outside: captured ones, made-up ones, broken ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod captured;
mod differences;
mod hostile;
