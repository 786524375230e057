//! The executor as a separate program, for agents that are not the `songline` binary, such as those in tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    songline_client::executor_main(std::env::args_os().skip(1))
}
