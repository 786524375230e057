//! Untrusted input that the agent itself reads: configuration files, workload identities, snapshot archives, as the
//! fuzzer found them.
//! `api/tests/it/hostile.rs` has hostile requests. Finding new inputs needs another toolchain: docs/fuzzing.md.

#[path = "../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../fuzz/src/shell.rs"]
mod shell;

#[test]
fn configurations_identities_and_archives_are_read_or_refused() {
    corpus::replay("shell", shell::shell);
}
