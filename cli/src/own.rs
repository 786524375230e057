//! Commands that the reference does not have.

mod audit;
pub mod event;
mod event_sink;
mod explain;
mod export;
mod history;
mod quota;
mod top;
mod what_if;
mod work;

use crate::man::Man;
use crate::{Entry, complete};

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::command::<audit::Audit>("audit", "Show the commands of the log with their actors and results"),
    Entry::here::<complete::Completion>("completion", "Print the script that completes commands in a shell")
        .arity("This command takes one argument: bash, zsh or fish"),
    Entry::tree::<quota::Command>("quota", "Interact with quotas"),
    Entry::group("event", "Interact with the event stream and event sinks"),
    Entry::command::<event::Follow>("event follow", "Print change events as they happen"),
    Entry::group("event sink", "Interact with event sinks"),
    Entry::command::<event_sink::List>("event sink list", "Show all event sinks"),
    Entry::command::<event_sink::Register>("event sink register", "Create or update an event sink")
        .arity("This command takes one argument: <file>"),
    Entry::command::<event_sink::Deregister>("event sink deregister", "Delete an event sink")
        .arity("This command takes one argument: <name>"),
    Entry::command::<event_sink::Status>("event sink status", "Show an event sink and its progress")
        .arity("This command takes one argument: <name>"),
    Entry::command::<explain::Options>("explain", "Explain why an allocation is where it is, or is not any more"),
    Entry::command::<export::Export>("export", "Write jobs, variables and policies as files that Nomad takes")
        .arity("This command takes one argument: <dir>"),
    Entry::command::<history::Options>("history", "Show every change of one object"),
    Entry::command::<history::export::Export>("history export", "Write the events of the log as files for analysis")
        .arity("This command takes one argument: <dir>"),
    Entry::here::<Man>("man", "Write pages for the manual").arity("This command takes one argument: <dir>"),
    Entry::group("pending-work", "Interact with long work of the servers"),
    Entry::command::<work::List>("pending-work list", "Show long work, running and ended"),
    Entry::command::<work::Status>("pending-work status", "Show one piece of work"),
    Entry::command::<work::Stop>("pending-work stop", "Stop a piece of work"),
    Entry::command::<top::Top>("top", "Watch nodes, jobs and events on a page of the terminal"),
    Entry::command::<what_if::Options>(
        "what-if",
        "Show what would become of jobs and nodes after hypothetical changes",
    ),
];
