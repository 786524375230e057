//! Consensus: the only place that knows openraft. Everything outside sees `Node` and our own types, so that
//! the library can be replaced without anybody noticing.

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
