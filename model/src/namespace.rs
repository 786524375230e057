//! Namespaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Blob, NamespaceName, QuotaName, Str};

/// A namespace: a named part of all jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Namespace {
    pub name: NamespaceName,
    pub description: Str,
    pub quota: QuotaName,
    pub capabilities: Option<NamespaceCapabilities>,
    pub node_pool_configuration: Option<NamespaceNodePoolConfiguration>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub hash: Option<Blob>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Task drivers that jobs may use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceCapabilities {
    pub enabled_task_drivers: Option<Vec<Str>>,
    pub disabled_task_drivers: Option<Vec<Str>>,
}

/// Node pools that jobs may use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceNodePoolConfiguration {
    pub default: Str,
    pub allowed: Option<Vec<Str>>,
    pub denied: Option<Vec<Str>>,
}
