//! CSI plugins: the gRPC conversation with a plugin over its unix socket, and the fingerprint made from its answers.
//!
//! Running a plugin as a task, mounting volumes for allocations, and answering the controller calls of servers are not
//! here.

mod fingerprint;
mod messages;
mod plugin;

pub use fingerprint::{Fingerprint, FingerprintError, Instance, Parts};
pub use messages::{
    AccessMode, MountVolume, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeCapability, access_type,
};
pub use plugin::{CallError, ConnectError, Plugin};

#[cfg(test)]
mod tests;
