//! The node agent: runs the tasks of the allocations that the servers assign to this node, and reports their status.
//!
//! [`core`] decides; everything else here is the shell that carries decisions out.

mod about;
mod agent;
mod allocdir;
mod artifact;
mod beneath;
pub mod cgroup;
mod checks;
mod clock;
mod config;
mod consul;
pub mod core;
pub mod csi;
pub mod driver;
pub mod env;
mod escape;
pub mod executor;
mod fingerprint;
pub mod loops;
mod meta;
mod netlink;
mod network;
mod options;
mod previous;
mod procfs;
pub mod reverse;
mod rotate;
mod runner;
mod serve;
mod servers;
mod services;
mod signal;
mod state;
mod stats;
mod task_api;
mod template;
pub mod tls;
mod vault;
mod volumes;

pub use about::AboutAgent;
pub use agent::{Client, StartError};
pub use artifact::ArtifactSettings;
pub use clock::Clock;
pub use config::{ClientConfig, DrainOnShutdown, PublishSettings};
pub use consul::ConsulSettings;
pub use executor::executor_main;
pub use fingerprint::ABILITIES;
pub use network::{HostNetwork, NetworkSettings};
pub use servers::NetServers;
pub use state::{StateError, read_state};
pub use stats::TaskUsage;
pub use task_api::TaskApi;
pub use template::{ReadAnswer, Retry, ServerReads, TemplateSettings};
pub use vault::VaultSettings;
