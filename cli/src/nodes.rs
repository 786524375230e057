//! Nodes and node pools.

mod node;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::tree::<node::Command>("node", "Interact with nodes"),
    Entry::alias("node-status", "node status").hidden(),
    Entry::alias("node-drain", "node drain").hidden(),
    Entry::alias("client-config", "node config").deprecated(),
];
