//! Clusters that are not real, and the checkers that judge what any cluster did.
//!
//! For load and for tests of the servers there is a real server whose nodes only say that they run what they are given.

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
