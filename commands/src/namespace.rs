//! Commands for namespaces.

use serde::{Deserialize, Serialize};
use songline_model::{Namespace, NamespaceName};

/// Create or update namespaces.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertNamespaces {
    /// Whole rows; hashes must be set, indexes are ignored.
    pub namespaces: Vec<Namespace>,
}

/// Delete namespaces: all of them, or none if one may not be deleted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteNamespaces {
    /// Names of the namespaces.
    pub names: Vec<NamespaceName>,
}
