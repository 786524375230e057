//! What the agent itself reads from strangers: configuration files, identities of workloads, snapshot archives, as the fuzzer found them.
//! Requests are not here: `api/tests/it/hostile.rs` has those. Finding new inputs needs another toolchain: docs/fuzzing.md.

#[path = "../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../fuzz/src/shell.rs"]
mod shell;

#[test]
fn configurations_identities_and_archives_are_read_or_refused() {
    corpus::replay("shell", shell::shell);
}
