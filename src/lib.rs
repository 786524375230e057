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

/// A proposed command, for tools that use a server without HTTP.
pub use songline_api::Proposal;
/// Typed commands of the log, for the same tools.
pub use songline_commands as commands;
/// Objects such as jobs and nodes, for users of this library.
pub use songline_model as model;
/// The tables, for tools that measure them.
pub use songline_projections as projections;
/// Wire types between nodes and servers, for simulated nodes.
pub use songline_rpc as rpc;
