//! CSI plugins: the gRPC conversation with a plugin over its unix socket, the fingerprint made from its answers, the
//! supervision of tasks that are plugins, the requests of servers to them, and the volumes of allocations.

mod alloc;
mod capability;
mod controller;
mod fingerprint;
mod messages;
mod plugin;
mod registry;
mod serve;
mod supervisor;
mod volumes;

pub(crate) use alloc::{AllocVolumes, AtServers, Claims, HeldVolumes};
pub use fingerprint::{Fingerprint, FingerprintError, Instance, Parts};
pub use messages::{
    AccessMode, MountVolume, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeCapability, access_type,
};
pub use plugin::{CallError, ConnectError, Plugin};
pub(crate) use serve::serve;
pub(crate) use supervisor::{Place, Supervision, Told};
pub(crate) use volumes::Volumes;

#[cfg(test)]
mod tests;
