//! Servers, operation of the cluster, and the rest.

mod operator;
mod server;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::tree::<server::Command>("server", "Interact with servers"),
    Entry::tree::<operator::Command>("operator", "Provides cluster-level tools for operators"),
    Entry::alias("server-members", "server members").deprecated(),
    Entry::alias("server-join", "server join").deprecated(),
    Entry::alias("server-force-leave", "server force-leave").deprecated(),
    Entry::alias("debug", "operator debug").hidden(),
];
