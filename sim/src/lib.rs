//! Simulated clusters, and the checkers that judge the behaviour of any cluster.
//!
//! For load and for tests of the servers, `Cluster` runs a real server with simulated nodes; [`fleet`] has the nodes, for any
//! servers.

pub mod check;
#[cfg(feature = "agents")]
mod cluster;
pub mod fleet;
pub mod simulation;

#[cfg(feature = "agents")]
pub use cluster::Cluster;
