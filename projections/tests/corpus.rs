//! Entries and checkpoints that fuzzing starts from or found worth keeping, played through what the fuzzer itself runs.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads the corpora, on the stack of a worker"
)]

#[path = "../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../fuzz/src/tables.rs"]
mod tables;

#[test]
fn entries_are_read_written_and_applied_or_refused() {
    corpus::replay("command", tables::command);
}

#[test]
fn checkpoints_are_read_or_refused() {
    corpus::replay("checkpoint", tables::checkpoint);
}
