//! The program's entry: commands that need a server, the log or an agent are files below `cli/`; all others are in
//! `songline-cli`.

mod agent;
mod config;
mod dev;
mod import;
mod log;
mod offline;
mod operator;
mod snapshot;
mod table;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use songline_cli::{Context, Entry, Exit, General, Outcome, Run, RunHere, outln};

/// Commands that `songline-cli` does not have.
const COMMANDS: &[Entry] = &[
    Entry::here::<agent::Options>("agent", "Run an agent: a server, a node, or both"),
    Entry::group("config", "Interact with configurations"),
    Entry::here::<config::Check>("config check", "Show the effect of each setting of configuration files"),
    Entry::here::<config::Validate>("config validate", "Validate configuration files and directories"),
    Entry::here::<dev::Options>("dev", "Start an agent for this machine, run job files and print what happens"),
    Entry::tree_here::<log::Command>("log", "Look into the log of a server that is not running"),
    Entry::tree::<snapshot::Command>("snapshot", "Save, restore and inspect snapshot archives"),
    Entry::command::<import::Options>("import", "Import an archive of Nomad with its root key files"),
    Entry::here::<operator::ClientState>("operator client-state", "Show the state of a node that does not run"),
    Entry::here::<operator::RaftInfo>("operator raft info", "Show the extent of a server's log"),
    Entry::here::<operator::RaftLogs>("operator raft logs", "Print the commands of a server's log"),
    Entry::here::<operator::RaftState>("operator raft state", "Print the tables that a server's log makes"),
    Entry::here::<operator::SnapshotInspect>("operator snapshot inspect", "Show the content of an archive"),
    Entry::here::<operator::SnapshotState>("operator snapshot state", "Print the tables of an archive"),
    Entry::here::<Version>("version", "Print the version"),
];

/// Runs the command from the process's arguments.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().map(|name| Path::new(&name).file_name().map(OsString::from).unwrap_or_default());
    let program = program.unwrap_or_default().to_string_lossy().into_owned();
    let rest: Vec<OsString> = args.collect();
    // A task's executor is this same program: this process must do nothing else.
    if rest.first().is_some_and(|arg| arg == "executor") {
        return songline_client::executor_main(rest.into_iter().skip(1));
    }
    let mut words: Vec<String> = rest.into_iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if words.first().is_some_and(|word| matches!(word.as_str(), "-v" | "-version" | "--version")) {
        words = vec!["version".to_owned()];
    }
    ExitCode::from(songline_cli::main(&program, words, COMMANDS).number())
}

/// Arguments of `version`.
#[derive(clap::Args)]
struct Version {}

impl RunHere for Version {
    fn run_here(self, context: &Context) -> Outcome {
        let (own, reference) = (env!("CARGO_PKG_VERSION"), crate::agent::REFERENCE_VERSION);
        // Scripts of users who installed this program as `nomad` parse the first line.
        if context.program == "nomad" {
            outln!("Nomad v{reference}");
            outln!("Songline v{own}");
        } else {
            outln!("Songline v{own} (speaks the interface of Nomad v{reference})");
        }
        // Packages are built with the variable.
        if let Some(commit) = option_env!("SONGLINE_COMMIT") {
            outln!("Commit {commit}");
        }
        outln!("Schema {}", songline_projections::SCHEMA);
        Ok(Exit::DONE)
    }
}

impl RunHere for agent::Options {
    fn run_here(self, _: &Context) -> Outcome {
        agent::run(self)?;
        Ok(Exit::DONE)
    }
}

impl RunHere for dev::Options {
    fn run_here(self, _: &Context) -> Outcome {
        dev::run(self)?;
        Ok(Exit::DONE)
    }
}

impl RunHere for log::Command {
    fn run_here(self, _: &Context) -> Outcome {
        log::run(self)?;
        Ok(Exit::DONE)
    }
}

impl Run for snapshot::Command {
    async fn run(self, _: &Context) -> Outcome {
        snapshot::run(self).await?;
        Ok(Exit::DONE)
    }
}

impl Run for import::Options {
    async fn run(self, _: &Context) -> Outcome {
        import::run(self).await?;
        Ok(Exit::DONE)
    }
}
