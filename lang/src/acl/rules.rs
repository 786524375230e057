//! Rules of a policy: blocks with their labels and words. `compiled` combines the rules of several policies.

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
    /// Label: a name in which `*` matches any text.
    pub name: String,
    /// Shorthand; empty when absent.
    pub policy: String,
    /// Capabilities, without those of the shorthand.
    pub capabilities: Vec<String>,
    /// The `variables` block.
    pub variables: Option<Vec<PathRule>>,
}

/// A `path` block of variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathRule {
    /// Label: a path in which `*` matches any text.
    pub path: String,
    /// Capabilities.
    pub capabilities: Vec<String>,
}

/// A `node_pool` block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePoolRule {
    /// Label: a name in which `*` matches any text.
    pub name: String,
    /// Shorthand; empty when absent.
    pub policy: String,
    /// Capabilities, without those of the shorthand.
    pub capabilities: Vec<String>,
}

/// A `host_volume` block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostVolumeRule {
    /// Label: a name in which `*` matches any text.
    pub name: String,
    /// Shorthand; empty when absent.
    pub policy: String,
    /// Capabilities, without those of the shorthand.
    pub capabilities: Vec<String>,
}
