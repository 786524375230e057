//! Combined permissions of several policies: merged by label, matched by the closest label.

use std::collections::BTreeMap;

use super::capability::{Access, HostVolumeCapability, NamespaceCapability, NodePoolCapability, VariableCapability};
use super::rules::Policy;

/// Permissions of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acl {
    management: bool,
    namespaces: Table,
    node_pools: Table,
    host_volumes: Table,
    /// Keyed by namespace, a NUL byte, and path.
    variables: Table,
    agent: Access,
    node: Access,
    operator: Access,
    quota: Access,
    plugin: Access,
    workload: Option<Workload>,
}

/// A task that calls with its workload identity: it may read some variables without any policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The task's namespace.
    pub namespace: String,
    /// The task's job; the parent for a dispatched or periodic child.
    pub job: String,
    /// The task's group.
    pub group: String,
    /// The task's name.
    pub task: String,
}

/// Capabilities of one label. A denied label permits nothing, whatever other policies grant it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Set {
    denied: bool,
    bits: u32,
}

impl Set {
    fn has(self, bit: u32) -> bool {
        !self.denied && self.bits & bit != 0
    }

    fn has_any(self) -> bool {
        !self.denied && self.bits != 0
    }
}

/// Capabilities by label. Labels are not combined: the closest label alone decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Table(BTreeMap<String, Set>);

impl Table {
    fn add(&mut self, label: String, denied: bool, bits: u32) {
        let set = self.0.entry(label).or_default();
        set.denied |= denied;
        set.bits |= bits;
    }

    /// The set of the label that equals the name.
    fn exact(&self, name: &str) -> Option<Set> {
        self.0.get(name).filter(|_| !name.contains('*')).copied()
    }

    /// The set of the closest matching label with stars: the one whose stars match the fewest bytes; among equals, the
    /// last in order.
    fn glob(&self, name: &str) -> Option<Set> {
        let globs = self.0.iter().filter(|(label, _)| label.contains('*') && glob(label, name));
        let distance = |label: &str| {
            let stars = label.bytes().filter(|byte| *byte == b'*').count();
            (name.len() + stars).saturating_sub(label.len())
        };
        globs.min_by_key(|(label, _)| (distance(label), std::cmp::Reverse(*label))).map(|(_, set)| *set)
    }

    fn find(&self, name: &str) -> Set {
        self.exact(name).or_else(|| self.glob(name)).unwrap_or_default()
    }

    fn any(&self, test: impl Fn(Set) -> bool) -> bool {
        self.0.values().any(|set| test(*set))
    }
}

/// Whether a label matches a name. A star matches any bytes, or none; no other character is special.
fn glob(label: &str, name: &str) -> bool {
    let mut parts = label.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn bits<T: std::str::FromStr>(words: &[String], bit: impl Fn(T) -> u32) -> (bool, u32) {
    let denied = words.iter().any(|word| word == "deny");
    (denied, words.iter().filter_map(|word| word.parse().ok()).map(bit).fold(0, |all, bit| all | bit))
}

impl Acl {
    /// The permissions of a management token: everything.
    pub fn management() -> Self {
        Self { management: true, ..Self::default() }
    }

    /// No permissions.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The combined permissions of these policies.
    pub fn of<'p>(policies: impl IntoIterator<Item = &'p Policy>) -> Self {
        let mut acl = Self::default();
        let mut denials = Denials::default();
        for policy in policies {
            acl.add(policy, &mut denials);
        }
        denials.enforce(&mut acl);
        acl
    }

    /// Adds a task's permission to read and list its own variables.
    pub fn with_workload(mut self, workload: Workload) -> Self {
        self.workload = Some(workload);
        self
    }

    fn add(&mut self, policy: &Policy, denials: &mut Denials) {
        for rule in &policy.namespaces {
            let (denied, own) = bits(&rule.capabilities, NamespaceCapability::bit);
            let short = NamespaceCapability::of_policy(&rule.policy).iter().fold(0, |all, each| all | each.bit());
            self.namespaces.add(rule.name.clone(), denied || rule.policy == "deny", own | short);
            for path in rule.variables.iter().flatten() {
                let (denied, mut set) = bits(&path.capabilities, VariableCapability::bit);
                if set & VariableCapability::Read.bit() != 0 {
                    set |= VariableCapability::List.bit();
                }
                self.variables.add(format!("{}\0{}", rule.name, path.path), denied, set);
            }
        }
        for rule in &policy.node_pools {
            let (denied, own) = bits(&rule.capabilities, NodePoolCapability::bit);
            let short = NodePoolCapability::of_policy(&rule.policy).iter().fold(0, |all, each| all | each.bit());
            self.node_pools.add(rule.name.clone(), denied || rule.policy == "deny", own | short);
        }
        for rule in &policy.host_volumes {
            let (denied, own) = bits(&rule.capabilities, HostVolumeCapability::bit);
            let short = HostVolumeCapability::of_policy(&rule.policy).iter().fold(0, |all, each| all | each.bit());
            self.host_volumes.add(rule.name.clone(), denied || rule.policy == "deny", own | short);
        }
        denials.merge(&mut self.agent, 0, policy.agent.as_ref());
        denials.merge(&mut self.node, 1, policy.node.as_ref());
        denials.merge(&mut self.operator, 2, policy.operator.as_ref());
        denials.merge(&mut self.quota, 3, policy.quota.as_ref());
        denials.merge(&mut self.plugin, 4, policy.plugin.as_ref());
    }

    /// Whether the caller may do everything.
    pub fn is_management(&self) -> bool {
        self.management
    }

    /// Whether the caller has the capability in a namespace; for `*`, whether in any namespace.
    pub fn namespace(&self, namespace: &str, capability: NamespaceCapability) -> bool {
        if self.management {
            return true;
        }
        if namespace == "*" {
            return self.namespaces.any(|set| set.has(capability.bit()));
        }
        self.namespaces.find(namespace).has(capability.bit())
    }

    /// Whether the caller has any capability in a namespace; for `*`, whether in any namespace.
    pub fn any_in_namespace(&self, namespace: &str) -> bool {
        if self.management {
            return true;
        }
        if namespace == "*" {
            return self.namespaces.any(Set::has_any);
        }
        self.namespaces.find(namespace).has_any()
    }

    /// Whether the caller has the capability for a node pool.
    pub fn node_pool(&self, pool: &str, capability: NodePoolCapability) -> bool {
        self.management || self.node_pools.find(pool).has(capability.bit())
    }

    /// Whether some label of node pools is not denied.
    pub fn any_node_pool(&self) -> bool {
        self.management || self.node_pools.any(|set| !set.denied)
    }

    /// Whether the caller has the capability for a host volume.
    pub fn host_volume(&self, volume: &str, capability: HostVolumeCapability) -> bool {
        self.management || self.host_volumes.find(volume).has(capability.bit())
    }

    /// Whether the caller has the capability for a variable. The label that equals the path is checked first, then the
    /// workload's own variables, then labels with stars.
    pub fn variable(&self, namespace: &str, path: &str, capability: VariableCapability) -> bool {
        if self.management {
            return true;
        }
        let name = format!("{namespace}\0{path}");
        if let Some(set) = self.variables.exact(&name) {
            return set.has(capability.bit());
        }
        let own = matches!(capability, VariableCapability::Read | VariableCapability::List);
        if own && self.workload.as_ref().is_some_and(|workload| workload.owns(namespace, path)) {
            return true;
        }
        self.variables.glob(&name).unwrap_or_default().has(capability.bit())
    }

    /// Whether some label of variables is not denied, or the caller is a workload.
    pub fn any_variable(&self) -> bool {
        self.management || self.workload.is_some() || self.variables.any(|set| !set.denied)
    }

    /// Whether the caller has this level of access to agents.
    pub fn agent(&self, access: Access) -> bool {
        self.management || self.agent >= access
    }

    /// Whether the caller has this level of access to nodes.
    pub fn node(&self, access: Access) -> bool {
        self.management || self.node >= access
    }

    /// Whether the caller has this level of access to operator endpoints.
    pub fn operator(&self, access: Access) -> bool {
        self.management || self.operator >= access
    }

    /// Whether the caller has this level of access to quotas.
    pub fn quota(&self, access: Access) -> bool {
        self.management || self.quota >= access
    }

    /// Whether the caller has this level of access to CSI plugins.
    pub fn plugin(&self, access: Access) -> bool {
        self.management || self.plugin >= access
    }
}

impl Workload {
    fn owns(&self, namespace: &str, path: &str) -> bool {
        let Some(below) = path.strip_prefix("nomad/jobs").filter(|_| namespace == self.namespace) else { return false };
        // A job id may contain slashes, so the task's paths are built and compared instead of splitting the given
        // path.
        let job = format!("/{}", self.job);
        let group = format!("{job}/{}", self.group);
        let task = format!("{group}/{}", self.task);
        ["", &job, &group, &task].contains(&below)
    }
}

/// Blocks without labels that some policy denies: no other policy can grant them.
#[derive(Default)]
struct Denials([bool; 5]);

impl Denials {
    fn merge(&mut self, access: &mut Access, block: usize, word: Option<&String>) {
        if let Some(word) = word {
            self.0[block] |= word == "deny";
            *access = (*access).max(Access::of_policy(word));
        }
    }

    fn enforce(self, acl: &mut Acl) {
        let Acl { agent, node, operator, quota, plugin, .. } = acl;
        for (denied, access) in self.0.into_iter().zip([agent, node, operator, quota, plugin]) {
            if denied {
                *access = Access::None;
            }
        }
    }
}
