//! The bytes of the node RPC from outside: captured ones, made-up ones, broken ones.

mod captured;
mod differences;
