//! Commands for service registrations.

use serde::{Deserialize, Serialize};
use songline_model::{NamespaceName, NodeId, ServiceRegistration, Str};

/// Add or update service registrations. Unchanged ones are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertServiceRegistrations {
    /// The registrations; their indexes are ignored.
    pub services: Vec<ServiceRegistration>,
}

/// Delete one registration. Refused when it does not exist.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteServiceRegistration {
    /// Namespace of the registration.
    pub namespace: NamespaceName,
    /// Id of the registration.
    pub id: Str,
}

/// Delete all registrations of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteServiceRegistrationsOfNode {
    /// Id of the node.
    pub node_id: NodeId,
}
