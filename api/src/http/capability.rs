//! Rights that routes require, in the notation of the list of routes. `gate` checks them.

use std::fmt;

use songline_lang::acl::{Access, NamespaceCapability, NodePoolCapability, VariableCapability};

/// Rights that a route requires. The gate checks them before the handler runs, as far as the request alone tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// None: every caller, even with an invalid token.
    Anyone,
    /// Possession of the secret that the request is about; the handler checks it.
    Possession,
    /// Rights to each row: the answer is filtered for an authenticated caller.
    Filtered,
    /// One of these in the request's namespace.
    Namespace(&'static [NamespaceCapability]),
    /// One of these in the namespace of the requested object; the handler checks it.
    Object(&'static [NamespaceCapability]),
    /// Same as [`Self::Object`] for a stream, which reports a refusal after its headers are sent.
    ObjectStream(&'static [NamespaceCapability]),
    /// One of these in the request's namespace; unknown tokens are refused as the agent does.
    AgentNamespace(&'static [NamespaceCapability]),
    /// This capability, or the secret of a node.
    OrNode(&'static Capability),
    /// This capability, or a workload identity.
    OrWorkload(&'static Capability),
    /// Access to nodes.
    Node(Access),
    /// Access to the node pool in the path.
    NodePool(NodePoolCapability),
    /// Access to CSI plugins.
    Plugin(Access),
    /// Access to agents; unknown tokens are refused as the agent does.
    Agent(Access),
    /// Access to agents; the handler checks it, because other errors of the request are reported first.
    AgentLate(Access),
    /// Access to agents; unknown tokens are refused as servers do.
    Servers(Access),
    /// Access to operator routes.
    Operator(Access),
    /// Access to quotas.
    Quota(Access),
    /// Access to the variable's path; the handler checks it.
    Variables(VariableCapability),
    /// Rights to the subscribed topics; the handler checks them.
    Topics,
    /// This capability, checked late: the handler reads path, own parameters and body before the standard parameters,
    /// and reading those (`Call::read_params`, `Call::write_namespace`) refuses the caller.
    Late(&'static Capability),
    /// A management token.
    Management,
}

impl Capability {
    /// The capability itself, whenever it is checked.
    pub(super) fn demanded(self) -> Self {
        if let Capability::Late(other) = self { *other } else { self }
    }
}

fn words(f: &mut fmt::Formatter<'_>, prefix: &str, capabilities: &[NamespaceCapability]) -> fmt::Result {
    let words: Vec<&str> = capabilities.iter().map(|capability| capability.as_str()).collect();
    write!(f, "{prefix}:{}", words.join("|"))
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Capability::Anyone => f.write_str("anyone"),
            Capability::Possession => f.write_str("possession"),
            Capability::Filtered => f.write_str("filtered"),
            Capability::Namespace(capabilities) | Capability::AgentNamespace(capabilities) => {
                words(f, "ns", capabilities)
            }
            Capability::Object(capabilities) | Capability::ObjectStream(capabilities) => {
                words(f, "object", capabilities)
            }
            Capability::OrNode(other) => write!(f, "{other} or a node"),
            Capability::OrWorkload(other) => write!(f, "{other} or a workload"),
            Capability::Node(access) => write!(f, "node:{access}"),
            Capability::NodePool(capability) => write!(f, "node_pool:{capability}"),
            Capability::Plugin(access) => write!(f, "plugin:{access}"),
            Capability::Agent(access) | Capability::AgentLate(access) | Capability::Servers(access) => {
                write!(f, "agent:{access}")
            }
            Capability::Operator(access) => write!(f, "operator:{access}"),
            Capability::Quota(access) => write!(f, "quota:{access}"),
            Capability::Variables(capability) => write!(f, "variables:{capability}"),
            Capability::Topics => f.write_str("topics"),
            Capability::Late(other) => other.fmt(f),
            Capability::Management => f.write_str("management"),
        }
    }
}
