//! The executor as a program of its own, for agents that are not the `songline` binary: tests above all.

use std::process::ExitCode;

fn main() -> ExitCode {
    songline_client::executor_main(std::env::args_os().skip(1))
}
