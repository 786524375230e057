//! The program as a library: configuration, wiring of a server and a node, the command line.

// These macros panic when the reader of the output is gone; `songline_cli::out` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod about;
pub mod agent;
pub mod cli;
mod compare;
pub mod config;
mod event_sinks;
mod https;
mod listen;
mod logging;
mod outgoing;
mod reads;
mod task_api;
mod vault;

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
