//! Commands about namespaces.

use serde::{Deserialize, Serialize};
use songline_model::{Namespace, NamespaceName};

/// Make or change namespaces.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertNamespaces {
    /// Whole rows; hashes present, indexes ignored.
    pub namespaces: Vec<Namespace>,
}

/// Delete namespaces: all of them or, when one may not go, none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteNamespaces {
    /// Which.
    pub names: Vec<NamespaceName>,
}
