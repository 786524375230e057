//! Commands that the reference does not have.

pub mod event;
mod explain;
mod history;
mod quota;
mod what_if;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::tree::<quota::Command>("quota", "Interact with quotas"),
    Entry::tree::<event::Command>("event", "Follow the event stream"),
    Entry::command::<explain::Options>("explain", "Explain why an allocation is where it is, or is not any more"),
    Entry::command::<history::Options>("history", "Show every change of one object"),
    Entry::command::<what_if::Options>(
        "what-if",
        "Show what would become of jobs and nodes after hypothetical changes",
    ),
];
