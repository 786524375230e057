//! The inputs that fuzzing found worth keeping, played through what the fuzzer itself runs: none may panic or break a
//! rule. Finding new ones needs another toolchain: docs/fuzzing.md.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads the corpora, on the stack of a worker"
)]

#[path = "../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../fuzz/src/lang.rs"]
mod lang;
#[path = "../../fuzz/src/paths.rs"]
mod paths;
#[path = "../../fuzz/src/template.rs"]
mod template;

#[test]
fn filters_are_read_or_refused() {
    corpus::replay("bexpr", lang::bexpr);
}

#[test]
fn job_files_are_read_or_refused() {
    corpus::replay("hcl", lang::hcl);
}

#[test]
fn old_job_files_are_read_or_refused() {
    corpus::replay("hcl1", lang::hcl1);
}

#[test]
fn policies_are_read_or_refused() {
    corpus::replay("acl", lang::acl);
}

#[test]
fn configuration_documents_are_read_or_refused() {
    corpus::replay("config", lang::config);
}

#[test]
fn bodies_are_read_or_refused() {
    corpus::replay("json", lang::json);
}

#[test]
fn versions_constraints_durations_and_patterns_are_read_or_refused() {
    corpus::replay("words", lang::words);
}

#[test]
fn paths_of_variables_and_patterns_are_read_or_refused() {
    corpus::replay("paths", paths::paths);
}

#[test]
fn templates_are_rendered_or_refused() {
    corpus::replay("template", template::template);
}
