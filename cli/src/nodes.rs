//! Nodes and node pools.

mod act;
mod drain;
mod find;
mod list;
mod meta;
mod pool;
mod status;

use crate::Entry;

/// Arguments of the commands about one pool.
const POOL: &str = "This command takes one argument: <node-pool>";

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::group("node", "Interact with nodes"),
    Entry::command::<act::Config>("node config", "Show and change the servers of a node's agent"),
    Entry::command::<drain::Drain>("node drain", "Move the allocations of a node elsewhere")
        .arity("Node ID must be specified if -self isn't being used"),
    Entry::command::<act::Eligibility>("node eligibility", "Set whether a node gets new allocations")
        .arity("Node ID must be specified if -self isn't being used"),
    Entry::group("node meta", "Interact with the metadata of a node"),
    Entry::command::<meta::Apply>("node meta apply", "Change the metadata of a node"),
    Entry::command::<meta::Read>("node meta read", "Show the metadata of a node"),
    Entry::group("node pool", "Interact with node pools"),
    Entry::command::<pool::Apply>("node pool apply", "Create or change a node pool")
        .arity("This command takes one argument: <input>"),
    Entry::command::<pool::Delete>("node pool delete", "Delete a node pool").arity(POOL),
    Entry::command::<pool::Info>("node pool info", "Show a node pool").arity(POOL),
    Entry::command::<pool::Init>("node pool init", "Write an example of a node pool"),
    Entry::command::<pool::Jobs>("node pool jobs", "Show the jobs of a node pool").arity(POOL),
    Entry::command::<pool::List>("node pool list", "Show the node pools"),
    Entry::command::<pool::Nodes>("node pool nodes", "Show the nodes of a node pool").arity(POOL),
    Entry::command::<status::Status>("node status", "Show nodes, or one of them")
        .arity("This command takes either one or no arguments"),
    Entry::alias("node-status", "node status").hidden(),
    Entry::alias("node-drain", "node drain").hidden(),
    Entry::alias("client-config", "node config").deprecated(),
];
