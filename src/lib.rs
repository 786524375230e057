//! The agent as a library: configuration, the server and its wiring, the node, the command line.

pub mod agent;
pub mod archive;
pub mod cli;
pub mod config;
pub mod server;
