//! A policy in its written form, for display: absent lists are kept apart from empty ones. Permission checks use a
//! `Policy`.

use serde::Serialize;

use super::rules::{HostVolumeRule, NamespaceRule, NodePoolRule, PathRule as Path, Policy};

/// The rules of one policy. Its JSON is the `RulesJSON` of a policy read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Written {
    /// `namespace` blocks.
    pub namespaces: Option<Vec<Namespace>>,
    /// `node_pool` blocks.
    pub node_pools: Option<Vec<Named>>,
    /// `host_volume` blocks.
    pub host_volumes: Option<Vec<Named>>,
    /// The `agent` block.
    pub agent: Option<Single>,
    /// The `node` block.
    pub node: Option<Single>,
    /// The `operator` block.
    pub operator: Option<Single>,
    /// The `quota` block.
    pub quota: Option<Single>,
    /// The `plugin` block.
    pub plugin: Option<Single>,
    /// The policy's text.
    pub raw: String,
}

/// A `namespace` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Namespace {
    /// The label.
    pub name: String,
    /// The shorthand.
    pub policy: String,
    /// Capabilities; after the check with those of the shorthand.
    pub capabilities: Option<Vec<String>>,
    /// The `variables` block.
    pub variables: Option<Variables>,
}

/// A `variables` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Variables {
    /// The `path` blocks.
    pub paths: Option<Vec<PathRule>>,
}

/// A `path` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PathRule {
    /// The label.
    #[serde(rename = "PathSpec")]
    pub path: String,
    /// Capabilities; after the check with those that they imply.
    pub capabilities: Option<Vec<String>>,
}

/// A `node_pool` or `host_volume` block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Named {
    /// The label.
    pub name: String,
    /// The shorthand.
    pub policy: String,
    /// Capabilities; after the check with those of the shorthand.
    pub capabilities: Option<Vec<String>>,
}

/// A block without a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Single {
    /// The word of `policy`.
    pub policy: String,
}

impl Written {
    /// Whether the policy has no known block.
    pub(super) fn is_empty(&self) -> bool {
        let none = |rows: Option<usize>| rows.unwrap_or(0) == 0;
        let singles = [&self.agent, &self.node, &self.operator, &self.quota, &self.plugin];
        none(self.namespaces.as_ref().map(Vec::len))
            && none(self.node_pools.as_ref().map(Vec::len))
            && none(self.host_volumes.as_ref().map(Vec::len))
            && singles.into_iter().all(Option::is_none)
    }
}

impl From<Written> for Policy {
    fn from(written: Written) -> Self {
        let namespace = |block: Namespace| NamespaceRule {
            name: block.name,
            policy: block.policy,
            capabilities: block.capabilities.unwrap_or_default(),
            variables: block.variables.map(|block| block.paths.into_iter().flatten().map(path).collect()),
        };
        let node_pool = |Named { name, policy, capabilities }| {
            let capabilities = capabilities.unwrap_or_default();
            NodePoolRule { name, policy, capabilities }
        };
        let host_volume = |Named { name, policy, capabilities }| {
            let capabilities = capabilities.unwrap_or_default();
            HostVolumeRule { name, policy, capabilities }
        };
        let word = |block: Option<Single>| block.map(|block| block.policy);
        Self {
            namespaces: written.namespaces.into_iter().flatten().map(namespace).collect(),
            node_pools: written.node_pools.into_iter().flatten().map(node_pool).collect(),
            host_volumes: written.host_volumes.into_iter().flatten().map(host_volume).collect(),
            agent: word(written.agent),
            node: word(written.node),
            operator: word(written.operator),
            quota: word(written.quota),
            plugin: word(written.plugin),
        }
    }
}

fn path(block: PathRule) -> Path {
    Path { path: block.path, capabilities: block.capabilities.unwrap_or_default() }
}
