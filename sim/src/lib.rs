//! Clusters that are not real: a real server with nodes that only say that they run what they are given.
//!
//! For load and for tests of the servers. A simulated node makes the calls of a real one and starts no process.

mod cluster;
mod node;

pub use cluster::Cluster;
pub use node::SimNode;
