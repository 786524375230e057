//! Simulated clusters, and the checkers that judge the behaviour of any cluster.
//!
//! For load and for tests of the servers, `Cluster` runs a real server with nodes that only report their
//! allocations as running.

pub mod check;
#[cfg(feature = "agents")]
mod cluster;
#[cfg(feature = "agents")]
mod node;
pub mod simulation;

#[cfg(feature = "agents")]
pub use cluster::Cluster;
#[cfg(feature = "agents")]
pub use node::SimNode;
