//! Data model: ids, rows and the transitions of a row. This crate reads no clock and no file, and depends on no other
//! crate of the project.
//!
//! Every row is defined once, with the wire's field names; JSON, the log's msgpack and the node RPC are encoders of
//! the same definition. Ids and times are texts in JSON, and 16 bytes and integers in the log. For a list or map
//! `None` is `null`, `Some` of an empty one is empty.

mod acl;
mod alloc;
mod amount;
mod autopilot;
mod blob;
mod connect;
mod constraint;
mod csi;
mod deployment;
mod empty;
mod eval;
mod event_sink;
mod flat_map;
pub mod form;
mod group;
mod identity;
pub mod ids;
mod job;
mod key;
mod metric;
pub mod migrate_token;
mod namespace;
mod node;
mod node_pool;
mod node_resources;
mod periodic;
mod plan;
mod quota;
mod quote;
mod rare_text;
mod resources;
mod root_key;
mod scaling_event;
mod scaling_policy;
mod scheduler_config;
mod sealed;
mod secret;
mod service;
mod service_registration;
mod sources;
pub mod spec;
mod status;
mod task;
mod task_state;
mod time;
mod variable;
mod what_if;

pub use acl::*;
pub use alloc::*;
pub use amount::Amount;
pub use autopilot::AutopilotConfig;
pub use blob::{Blob, NotBase64};
pub use connect::*;
pub use constraint::*;
pub use csi::*;
pub use deployment::*;
pub use eval::*;
pub use event_sink::*;
pub use flat_map::FlatMap;
pub use group::*;
pub use identity::{IdentityClaims, SIGNATURE_BYTES, Signature, TaskIdentity};
pub use ids::{
    AccessorId, AllocId, BindingRuleId, CsiPluginId, CsiVolumeId, CsiVolumeKey, DeploymentId, EvalId, EventSinkName,
    InvalidId, JobId, JobKey, NamespaceName, NodeId, NodePoolName, QuotaName, RoleId, RootKeyId,
};
pub use job::*;
pub use key::KeyBytes;
pub use metric::*;
pub use namespace::*;
pub use node::*;
pub use node_pool::*;
pub use node_resources::*;
pub use periodic::PeriodicLaunch;
pub use plan::*;
pub use quota::*;
pub use quote::quote;
pub use rare_text::RareText;
pub use resources::*;
pub use root_key::*;
pub use scaling_event::*;
pub use scaling_policy::ScalingTarget;
pub use scheduler_config::*;
pub use sealed::Sealed;
pub use secret::Secret;
pub use service::*;
pub use service_registration::ServiceRegistration;
pub use sources::with_sources;
pub use status::*;
pub use task::*;
pub use task_state::*;
pub use time::{Dur, Time, UnixSecs, unix_nanos};
pub use variable::*;
pub use what_if::*;

/// A short text: cheap to clone, inline up to 23 bytes.
pub type Str = smol_str::SmolStr;

/// The namespace that always exists.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The node pool of nodes that name none.
pub const DEFAULT_NODE_POOL: &str = "default";
/// The node pool that holds every node.
pub const ALL_NODE_POOL: &str = "all";
