//! The command line of the reference, over an agent's HTTP API and local files.
//!
//! How to add a command:
//!
//! 1. Take the file of its area (`jobs`, `allocs`, `nodes`, `evals`, `names`, `storage`, `access`, `operators`, `own`);
//!    the command's own code is in a file below the area's folder.
//! 2. Write a struct with `#[derive(clap::Args)]`: `#[command(flatten)] general: General`, a field for each flag
//!    (`#[arg(long)]`; one letter too: `#[arg(long = "n")]`), a field for each argument (`String`, `Option<String>`, `Vec<String>`).
//! 3. `impl Run`: `async fn run(self, context: &Context) -> Outcome`. Begin with `let client = self.general.client()?;`.
//! 4. Add `Entry::command::<Struct>("group name", "Summary")` to the area's `COMMANDS`, with `.arity(SENTENCE)`,
//!    `.misuse(EXIT)` or `.hidden()` where they differ; other names with `Entry::alias`.
//! 5. Requests: `client.get(&with_query("/v1/jobs", &[("prefix", &id)])).await.tried("Error querying jobs")?`.
//! 6. Prefixes: [`ids`]. `-json` and `-t`: flatten [`format::Format`]. Pages: [`pages::Page`]. Questions: [`ask`].
//! 7. Printing: [`outln!`], [`layout`] (lists, blocks, sections), [`values`] (sizes, times, ages), [`out`] (colours, errors).
//! 8. Files: [`jobfile`] for jobs, [`input`] for everything else. Evaluations and deployments: [`monitor`].
//! 9. End with `Ok(Exit::DONE)` or `Err(Failure::new(..))`; a failure is printed by the caller.
//! 10. Replay the recorded transcripts of the group.

// These macros panic when the reader of the output is gone; `out` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod access;
mod allocs;
mod args;
pub mod ask;
pub mod client;
mod complete;
mod enterprise;
mod entry;
mod evals;
mod exit;
mod find;
pub mod format;
mod general;
mod help;
pub mod ids;
pub mod input;
pub mod jobfile;
mod jobs;
pub mod layout;
mod man;
pub mod monitor;
mod names;
mod nodes;
mod operators;
pub mod out;
mod own;
pub mod pages;
pub mod progress;
mod storage;
pub mod table;
mod tls;
pub mod values;

pub use client::Client;
pub use entry::{Context, Entry, Run, RunHere};
pub use exit::{Exit, Failure, Outcome, Tried};
pub use general::General;
pub use own::event;

/// Tables of the areas. Each is in its own file.
const AREAS: &[&[Entry]] = &[
    jobs::COMMANDS,
    allocs::COMMANDS,
    nodes::COMMANDS,
    evals::COMMANDS,
    names::COMMANDS,
    storage::COMMANDS,
    access::COMMANDS,
    operators::COMMANDS,
    enterprise::COMMANDS,
    own::COMMANDS,
];

/// Runs the command line: `typed` are the words after the program's name, `more` are commands of other crates.
/// With `COMP_LINE` in the environment, the caller is a shell that wants candidates for the end of that line.
pub fn main(program: &str, typed: Vec<String>, more: &'static [Entry]) -> Exit {
    let table: Vec<&'static Entry> = AREAS.iter().copied().flatten().chain(more).collect();
    if let Ok(line) = std::env::var("COMP_LINE") {
        let point = std::env::var("COMP_POINT").ok().and_then(|point| point.parse().ok());
        complete::run(&table, &line, point);
        return Exit::DONE;
    }
    find::Line::new(table, program.to_owned(), typed).run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;

    #[test]
    fn commands_are_in_the_table_once_with_sound_arguments() {
        let table: Vec<&Entry> = AREAS.iter().copied().flatten().collect();
        for entry in &table {
            if let Kind::Command { build, .. } = entry.kind {
                build(clap::Command::new(entry.path).no_binary_name(true).disable_help_flag(true)).debug_assert();
            }
            let same = table.iter().filter(|other| other.path == entry.path).count();
            assert_eq!(same, 1, "{} is in the table once", entry.path);
        }
    }
}
