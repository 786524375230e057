//! Volumes, plugins, scaling policies.

mod find;
mod plugin;
mod scaling;
mod snapshot;
mod spec;
mod volume;

pub(crate) use self::volume::mount_options;
use crate::{Entry, Failure};

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::group("plugin", "Inspect plugins"),
    Entry::command::<plugin::Status>("plugin status", "Display the status of plugins")
        .arity("This command takes either no arguments or one: <plugin>"),
    Entry::group("scaling", "Interact with scaling"),
    Entry::group("scaling policy", "Interact with scaling policies"),
    Entry::command::<scaling::Info>("scaling policy info", "Display a scaling policy")
        .arity("This command takes one of the following argument conditions:\n * A single <policy_id>\n * No arguments, with output format specified"),
    Entry::command::<scaling::List>("scaling policy list", "Display all scaling policies")
        .arity("This command takes no arguments"),
    Entry::group("volume", "Interact with volumes"),
    Entry::command::<volume::Create>("volume create", "Create an external volume and register it")
        .arity("This command takes one argument: <input>"),
    Entry::command::<volume::Delete>("volume delete", "Delete a volume at its provider and deregister it")
        .arity("This command takes one argument: <vol id>"),
    Entry::command::<volume::Deregister>("volume deregister", "Remove a volume")
        .arity("This command takes one argument: <id>"),
    Entry::command::<volume::Detach>("volume detach", "Release the claims of a node on a volume")
        .arity("This command takes two arguments: <vol id> <node id>"),
    Entry::command::<volume::Init>("volume init", "Write an example of a specification")
        .arity("This command takes no arguments or one: <filename>"),
    Entry::command::<volume::Register>("volume register", "Create or update a volume")
        .arity("This command takes one argument: <input>"),
    Entry::group("volume snapshot", "Interact with snapshots of volumes"),
    Entry::command::<snapshot::Create>("volume snapshot create", "Make a snapshot of a volume")
        .arity("This command takes one or two arguments: <vol id> [snapshot name]"),
    Entry::command::<snapshot::Delete>("volume snapshot delete", "Delete a snapshot")
        .arity("This command takes two arguments: <plugin id> <snapshot id>"),
    Entry::command::<snapshot::List>("volume snapshot list", "Display the snapshots of a provider")
        .arity("This command takes no arguments"),
    Entry::command::<volume::Status>("volume status", "Display the status of volumes")
        .arity("This command takes either no arguments or one: <id>"),
];

/// Refuses a list of `KEY=VALUE` in which a part has no `=`. `flag` is named in the refusal.
fn assigned(pairs: &[String], flag: &str) -> Result<Vec<(String, String)>, Failure> {
    let one = |pair: &String| match pair.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => {
            let mut noun = flag.to_owned();
            noun[..1].make_ascii_uppercase();
            Err(Failure::new(format!("{noun} must be in the format: -{flag} key=value")))
        }
    };
    pairs.iter().map(one).collect()
}
