//! CSI plugins: the gRPC conversation with a plugin over its unix socket, the fingerprint made from its answers, and
//! the supervision of tasks that are plugins.
//!
//! Mounting volumes for allocations, and answering the controller calls of servers are not here.

mod fingerprint;
mod messages;
mod plugin;
mod supervisor;

pub use fingerprint::{Fingerprint, FingerprintError, Instance, Parts};
pub use messages::{
    AccessMode, MountVolume, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeCapability, access_type,
};
pub use plugin::{CallError, ConnectError, Plugin};
pub(crate) use supervisor::{Place, Registry, Supervision, Told};

#[cfg(test)]
mod tests;
