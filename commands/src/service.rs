//! Commands about service registrations.

use serde::{Deserialize, Serialize};
use songline_model::{NamespaceName, NodeId, ServiceRegistration, Str};

/// Announce services. Those that are announced already, just so, are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertServiceRegistrations {
    /// Which; their indexes are ignored.
    pub services: Vec<ServiceRegistration>,
}

/// Take one announcement back. Refused when there is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteServiceRegistration {
    /// Where.
    pub namespace: NamespaceName,
    /// Which.
    pub id: Str,
}

/// Take back all that a node announced.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteServiceRegistrationsOfNode {
    /// Which node.
    pub node_id: NodeId,
}
