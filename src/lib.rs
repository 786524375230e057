//! The agent as a library: configuration, the server and its wiring, the node, the command line.

mod about;
pub mod agent;
pub mod ahead;
pub mod archive;
pub mod cli;
mod compare;
pub mod config;
mod hex;
mod https;
mod listen;
mod logging;
pub mod passing;
pub mod server;
mod task_api;
mod trust;

/// What a request asks of a server, for tools that ask without HTTP.
pub use songline_api::Proposal;
/// The verbs, for the same.
pub use songline_commands as commands;
/// The nouns, for those who build on this library.
pub use songline_model as model;
/// The tables, for tools that measure them.
pub use songline_projections as projections;
/// What nodes and servers say to each other, for simulated nodes.
pub use songline_rpc as rpc;
