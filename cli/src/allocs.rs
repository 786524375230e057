//! Allocations.

mod act;
mod exec;
mod files;
mod find;
mod logs;
mod status;
mod tail;
mod tasks;
mod volumes;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::group("alloc", "Interact with allocations"),
    Entry::command::<act::Checks>("alloc checks", "Show the checks of services of an allocation")
        .arity("This command takes one argument (allocation ID)")
        .missing("An allocation ID is required"),
    Entry::command::<exec::Options>("alloc exec", "Run a command in a task")
        .arity("This command takes at least two arguments: <alloc-id> <command>"),
    Entry::command::<files::Fs>("alloc fs", "Look into the directory of an allocation")
        .arity("This command takes one or two arguments: <alloc-id> [<path>]")
        .missing("An allocation ID is required"),
    Entry::command::<logs::Logs>("alloc logs", "Print the output of a task")
        .arity("This command takes one or two arguments")
        .missing("An allocation ID is required"),
    Entry::command::<act::Restart>("alloc restart", "Restart the tasks of an allocation")
        .arity("This command takes one or two arguments: <alloc-id> <task-name>"),
    Entry::command::<act::Signal>("alloc signal", "Send a signal to the tasks of an allocation")
        .arity("This command takes up to two arguments: <alloc-id> <task>"),
    Entry::command::<status::Status>("alloc status", "Show an allocation and its tasks")
        .arity("This command takes one of the following argument conditions:\n * A single <allocation>\n * No arguments, with output format specified"),
    Entry::command::<act::Stop>("alloc stop", "Stop an allocation and place it anew")
        .arity("This command takes one argument: <alloc-id>"),
    Entry::alias("logs", "alloc logs"),
    Entry::alias("fs", "alloc fs"),
    Entry::alias("exec", "alloc exec"),
    Entry::alias("alloc-status", "alloc status").hidden(),
];
