//! Three servers as real processes on this machine, one of which has another state than the others: it fences itself at the next digest, says so
//! over HTTP, serves nothing more, ends, and comes back by the way that `docs/operations.md` tells.
//!
//! The servers are this program itself, which puts the difference in through `songline::server::defects`: the product's own binary has no way to it.
//! Builds for release have no hooks, so there is nothing to test in them.

#[cfg(debug_assertions)]
mod cluster;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;

use std::process::ExitCode;

/// The name under which the test is chosen.
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
    // What libtest is told by words of its own is not meant for this one.
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
    if std::env::var_os("CI").is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
