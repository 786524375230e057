//! Tests of the log as its users see it: a whole log with a state machine, killed, damaged and restarted.

// The allowance for tests does not reach the functions that tests share.
#![allow(clippy::unwrap_used)]

mod cluster;
mod disk;
mod flips;
mod history;
mod kill;
mod machine;
#[path = "../../../tests/support/moody.rs"]
mod moody;
mod restart;
