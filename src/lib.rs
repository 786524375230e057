//! The agent as a library: configuration, the server and its wiring, the node, the command line.

pub mod agent;
pub mod archive;
pub mod cli;
mod compare;
pub mod config;
pub mod server;

/// The nouns, for those who build on this library.
pub use songline_model as model;
/// What nodes and servers say to each other, for simulated nodes.
pub use songline_rpc as rpc;
