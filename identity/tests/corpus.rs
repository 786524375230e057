//! The inputs that fuzzing found worth keeping, played through what the fuzzer itself runs: none may panic or break a
//! rule. Finding new ones needs another toolchain: docs/fuzzing.md.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads the corpora, on the stack of a worker"
)]

#[path = "../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../fuzz/src/jwt.rs"]
mod jwt;

#[test]
fn tokens_keys_and_signed_claims_are_read_or_refused() {
    corpus::replay("jwt", jwt::jwt);
}
