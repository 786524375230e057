//! A policy as it is written: blocks with their labels and words. What the words mean together is not here.

/// The rules of one policy, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// `namespace` blocks.
    pub namespaces: Vec<NamespaceRule>,
    /// `node_pool` blocks.
    pub node_pools: Vec<NodePoolRule>,
    /// `host_volume` blocks.
    pub host_volumes: Vec<HostVolumeRule>,
    /// The word of the `agent` block.
    pub agent: Option<String>,
    /// The word of the `node` block.
    pub node: Option<String>,
    /// The word of the `operator` block.
    pub operator: Option<String>,
    /// The word of the `quota` block.
    pub quota: Option<String>,
    /// The word of the `plugin` block.
    pub plugin: Option<String>,
}

/// A `namespace` block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespaceRule {
    /// Its label: a name in which `*` stands for anything.
    pub name: String,
    /// Its shorthand; empty when there is none.
    pub policy: String,
    /// Its capabilities, without those of the shorthand.
    pub capabilities: Vec<String>,
    /// Its `variables` block.
    pub variables: Option<Vec<PathRule>>,
}

/// A `path` block of variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathRule {
    /// Its label: a path in which `*` stands for anything.
    pub path: String,
    /// Its capabilities.
    pub capabilities: Vec<String>,
}

/// A `node_pool` block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePoolRule {
    /// Its label: a name in which `*` stands for anything.
    pub name: String,
    /// Its shorthand; empty when there is none.
    pub policy: String,
    /// Its capabilities, without those of the shorthand.
    pub capabilities: Vec<String>,
}

/// A `host_volume` block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostVolumeRule {
    /// Its label: a name in which `*` stands for anything.
    pub name: String,
    /// Its shorthand; empty when there is none.
    pub policy: String,
    /// Its capabilities, without those of the shorthand.
    pub capabilities: Vec<String>,
}
