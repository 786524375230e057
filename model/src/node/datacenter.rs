//! Nodes that a job may use, by datacenter (which may be a pattern) and node pool. The scheduler checks constraints.

use crate::{ALL_NODE_POOL, Job, Node};

impl Job {
    /// Whether the job may run in this datacenter: the job's may be patterns with `*`.
    pub fn includes_datacenter(&self, datacenter: &str) -> bool {
        self.datacenters.iter().flatten().any(|pattern| fits(pattern, datacenter))
    }

    /// Whether the node is in the job's pool and in one of its datacenters.
    pub fn covers(&self, node: &Node) -> bool {
        let in_pool = self.node_pool == ALL_NODE_POOL || self.node_pool == node.node_pool;
        in_pool && self.includes_datacenter(&node.datacenter)
    }
}

/// Whether the text matches the pattern; `*` matches any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(before) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else { return left.ends_with(rest) };
    for part in middle.split('*') {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_in_a_datacenter_stands_for_any_text() {
        let yes = [
            ("*", "dc1"),
            ("dc1", "dc1"),
            ("dc*", "dc1"),
            ("*1", "dc1"),
            ("d*1", "dc1"),
            ("a*b*c", "a1b2c"),
            ("*", ""),
        ];
        let no = [("dc2", "dc1"), ("dc*2", "dc1"), ("*x*", "dc1"), ("", "dc1"), ("dc1", "dc10"), ("a*b*c", "acb")];
        yes.iter().for_each(|(pattern, name)| assert!(fits(pattern, name), "{pattern} {name}"));
        no.iter().for_each(|(pattern, name)| assert!(!fits(pattern, name), "{pattern} {name}"));
    }
}
