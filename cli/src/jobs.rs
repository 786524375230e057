//! Jobs.

mod job;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::tree::<job::Command>("job", "Interact with jobs"),
    Entry::alias("run", "job run"),
    Entry::alias("plan", "job plan"),
    Entry::alias("stop", "job stop"),
    Entry::alias("validate", "job validate"),
    Entry::alias("init", "job init"),
    Entry::alias("inspect", "job inspect"),
];
