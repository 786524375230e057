//! Tests of the log through its public interface: a whole log with a state machine, killed, damaged and restarted.

// clippy's allowance for tests does not cover functions that tests share.
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
