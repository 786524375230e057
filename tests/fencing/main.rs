//! Three servers as real processes on this machine. The state of one starts to differ from the others': the server
//! fences itself at the next digest, reports it over HTTP, serves nothing more, ends, and rejoins as
//! `docs/operations.md` describes.
//!
//! The servers are this program itself, which injects the difference through `songline_server::defects`: the
//! product's own binary cannot. Release builds have no such defects, so they skip the test.

#[cfg(debug_assertions)]
mod cluster;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;

use std::process::ExitCode;

/// The name of the test, for filters.
const NAME: &str = "a_server_with_another_state_fences_itself_and_rejoins_with_an_empty_directory";

#[cfg(debug_assertions)]
fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "agent") {
        return cluster::agent();
    }
    if std::env::args().skip(1).any(|word| word == "--list") {
        println!("{NAME}: test");
        return ExitCode::SUCCESS;
    }
    // Options of libtest are ignored.
    let filters: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if !filters.is_empty() && !filters.iter().any(|filter| NAME.contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    match cluster::story() {
        Ok(()) => {
            println!("test {NAME} ... ok");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("test {NAME} ... FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(debug_assertions))]
fn main() -> ExitCode {
    println!("test {NAME} ... skipped: a build for release has no hooks");
    if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
