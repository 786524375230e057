//! Servers, operation of the cluster, and the rest.

mod api;
mod autopilot;
mod debug;
mod keyring;
mod metrics;
mod raft;
mod scheduler;
mod server;
mod snapshot;
mod tls;
mod ui;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::command::<server::AgentInfo>("agent-info", "Show figures of the agent"),
    Entry::command::<server::Check>("check", "Check the health of the agent").hidden(),
    Entry::command::<server::Monitor>("monitor", "Stream the log of an agent").arity("Only flags are taken"),
    Entry::group("server", "Interact with servers"),
    Entry::command::<server::Members>("server members", "Show the servers"),
    Entry::command::<server::Join>("server join", "Make servers known to each other")
        .arity("One or more node addresses must be given as arguments"),
    Entry::command::<server::ForceLeave>("server force-leave", "Remove a server")
        .arity("This command takes one argument: <node>"),
    Entry::group("system", "Interact with the system"),
    Entry::command::<server::Gc>("system gc", "Collect everything that may be dropped"),
    Entry::prefix("system reconcile", "Make derived state right"),
    Entry::command::<server::Summaries>("system reconcile summaries", "Recompute the summaries of all jobs"),
    Entry::here::<ui::Status>("status", "Show the status of any object"),
    Entry::command::<ui::Ui>("ui", "Open the web page")
        .arity("This command takes no or one optional argument, [<identifier>]"),
    Entry::group("operator", "Provides cluster-level tools for operators"),
    Entry::command::<api::Api>("operator api", "Make any request of the HTTP API")
        .arity("This command takes one argument: <path>")
        .missing("A path or a URL is required"),
    Entry::group("operator autopilot", "Look after the servers"),
    Entry::command::<autopilot::GetConfig>("operator autopilot get-config", "Show the configuration of autopilot"),
    Entry::command::<autopilot::SetConfig>("operator autopilot set-config", "Change the configuration of autopilot"),
    Entry::command::<autopilot::Health>("operator autopilot health", "Show the health of the servers"),
    Entry::command::<debug::Debug>("operator debug", "Capture what the agents of a cluster say about themselves")
        .arity("This command takes no arguments"),
    Entry::alias("debug", "operator debug").hidden(),
    Entry::prefix("operator gossip", "Manage the key of the servers"),
    Entry::group("operator gossip keyring", "Manage the key of the servers"),
    Entry::command::<keyring::Generate>("operator gossip keyring generate", "Print a new key"),
    Entry::command::<keyring::GossipList>("operator gossip keyring list", "Show the keys"),
    Entry::command::<keyring::Install>("operator gossip keyring install", "Install a key")
        .arity("This command requires one argument: <key>"),
    Entry::command::<keyring::Use>("operator gossip keyring use", "Change the primary key")
        .arity("This command requires one argument: <key>"),
    Entry::command::<keyring::GossipRemove>("operator gossip keyring remove", "Remove a key")
        .arity("This command requires one argument: <key>"),
    Entry::command::<metrics::Metrics>("operator metrics", "Show the metrics of the agent"),
    Entry::group("operator raft", "Interact with the replication of the log"),
    Entry::command::<raft::ListPeers>("operator raft list-peers", "Show the members of the replication"),
    Entry::command::<raft::RemovePeer>("operator raft remove-peer", "Remove a server from the replication"),
    Entry::command::<raft::TransferLeadership>("operator raft transfer-leadership", "Have another server lead"),
    Entry::prefix("operator root", "Manage the root keys"),
    Entry::group("operator root keyring", "Manage the root keys"),
    Entry::command::<keyring::List>("operator root keyring list", "Show the root keys"),
    Entry::command::<keyring::Rotate>("operator root keyring rotate", "Make a new root key")
        .arity("This command requires no arguments."),
    Entry::command::<keyring::Remove>("operator root keyring remove", "Remove a root key")
        .arity("This command requires one argument: <key ID>"),
    Entry::group("operator scheduler", "Configure the schedulers"),
    Entry::command::<scheduler::GetConfig>("operator scheduler get-config", "Show the configuration of the schedulers"),
    Entry::command::<scheduler::SetConfig>(
        "operator scheduler set-config",
        "Change the configuration of the schedulers",
    ),
    Entry::group("operator snapshot", "Save, restore and inspect archives of the state"),
    Entry::command::<snapshot::Save>("operator snapshot save", "Save an archive of the state")
        .arity("This command takes either no arguments or one: <filename>"),
    Entry::command::<snapshot::Restore>("operator snapshot restore", "Restore an archive of the state")
        .arity("This command takes one argument: <filename>"),
    Entry::group("tls", "Make certificates of agents"),
    Entry::group("tls ca", "Make an authority"),
    Entry::command::<tls::CaCreate>("tls ca create", "Make an authority"),
    Entry::command::<tls::CaInfo>("tls ca info", "Show the certificate of an authority").missing("A file is required"),
    Entry::group("tls cert", "Make certificates"),
    Entry::command::<tls::CertCreate>("tls cert create", "Make a certificate"),
    Entry::command::<tls::CertInfo>("tls cert info", "Show a certificate").missing("A file is required"),
    Entry::alias("server-members", "server members").deprecated(),
    Entry::alias("server-join", "server join").deprecated(),
    Entry::alias("server-force-leave", "server force-leave").deprecated(),
];
