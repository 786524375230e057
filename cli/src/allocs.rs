//! Allocations.

mod alloc;
mod exec;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::tree::<alloc::Command>("alloc", "Interact with allocations"),
    Entry::alias("logs", "alloc logs"),
    Entry::alias("fs", "alloc fs"),
    Entry::alias("exec", "alloc exec"),
    Entry::alias("alloc-status", "alloc status").hidden(),
];
