//! Consensus: the only module that uses openraft. Other modules use `Node` and types of this crate, so that openraft
//! can be replaced without changing them.

mod adapt;
mod alone;
mod incoming;
mod machine;
mod message;
mod network;
mod node;
mod runtime;
mod storage;
#[cfg(test)]
mod tests;
mod types;

pub use alone::{Alone, stand_alone};
pub(crate) use machine::{Gone, Machine, Progress};
pub(crate) use network::Network;
pub(crate) use node::{Node, Outlook, ReadyError, applied};
pub use runtime::seed_this_thread;
