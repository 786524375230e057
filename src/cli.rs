//! The command line: parses arguments and runs the selected command. Each command is a file below `cli/`.

mod acl;
mod agent;
mod alloc;
mod dev;
mod event;
mod exec;
mod explain;
mod history;
mod http;
mod import;
mod job;
mod log;
mod node;
mod operator;
mod quota;
mod server;
mod snapshot;
mod table;
mod what_if;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// An open workload orchestrator whose heart is one replicated, append-only log.
#[derive(Parser)]
#[command(name = "songline", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an agent: a server, a node, or both.
    Agent(agent::Options),
    /// Start an agent for this machine, run a job file and print what happens.
    Dev(dev::Options),
    /// Jobs: run, status, stop.
    #[command(subcommand)]
    Job(job::Command),
    /// Allocations: status, logs, exec.
    #[command(subcommand)]
    Alloc(alloc::Command),
    /// Nodes: status.
    #[command(subcommand)]
    Node(node::Command),
    /// Access control: bootstrap, policies, tokens, roles.
    #[command(subcommand)]
    Acl(acl::Command),
    /// Quotas of namespaces: apply, delete, init, inspect, list, status.
    #[command(subcommand)]
    Quota(quota::Command),
    /// The event stream: follow.
    #[command(subcommand)]
    Event(event::Command),
    /// Why an allocation is where it is, or is not any more.
    Explain(explain::Options),
    /// Every change of one object.
    History(history::Options),
    /// What would become of jobs and nodes after hypothetical changes.
    WhatIf(what_if::Options),
    /// Servers: members, join, force-leave.
    #[command(subcommand)]
    Server(server::Command),
    /// Operation of the servers: raft, autopilot, gossip.
    #[command(subcommand)]
    Operator(operator::Command),
    /// Snapshot archives: save, restore, inspect.
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Import an archive of Nomad with its root key files.
    Import(import::Options),
    /// The log of a server that is not running: inspect, verify, go-alone.
    #[command(subcommand)]
    Log(log::Command),
    /// Print the version.
    Version,
}

/// Address of the agent, and how to reach it.
#[derive(Args, Clone)]
pub(crate) struct Target {
    /// The agent's address.
    #[arg(long, env = "NOMAD_ADDR", default_value = "http://127.0.0.1:4646")]
    address: String,
    /// The namespace; `*` is all of them, where a list is asked for.
    #[arg(long, env = "NOMAD_NAMESPACE", default_value = "default")]
    namespace: String,
    /// The secret of an ACL token.
    #[arg(long, env = "NOMAD_TOKEN", hide_env_values = true, default_value = "", hide_default_value = true)]
    token: String,
    /// Certificates (PEM) of who may have signed the agent's; those of the system where this is not said.
    #[arg(long, env = "NOMAD_CACERT", value_parser = http::trusted)]
    ca_cert: Option<http::Trusted>,
}

/// Runs the command from the process's arguments.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // A task's executor is this same program: this process must do nothing else.
    if args.get(1).is_some_and(|arg| arg == "executor") {
        return songline_client::executor_main(args.into_iter().skip(2));
    }
    if args.get(1).is_some_and(|arg| arg == "-version" || arg == "--version" || arg == "-v") {
        return version();
    }
    let is_exec = args.get(1).is_some_and(|arg| arg == "alloc") && args.get(2).is_some_and(|arg| arg == "exec");
    let own = if is_exec { exec::own_arguments(&args) } else { args.len() };
    let cli =
        Cli::parse_from(args.into_iter().enumerate().map(|(at, arg)| if at < own { two_dashes(arg) } else { arg }));
    let result = match cli.command {
        Command::Agent(options) => agent::run(options),
        Command::Dev(options) => dev::run(options),
        Command::Job(command) => blocking(job::run(command)),
        Command::Alloc(command) => blocking(alloc::run(command)),
        Command::Node(command) => blocking(node::run(command)),
        Command::Acl(command) => blocking(acl::run(command)),
        Command::Quota(command) => blocking(quota::run(command)),
        Command::Event(command) => blocking(event::run(command)),
        Command::Explain(options) => blocking(explain::run(options)),
        Command::History(options) => blocking(history::run(options)),
        Command::WhatIf(options) => blocking(what_if::run(options)),
        Command::Server(command) => blocking(server::run(command)),
        Command::Operator(command) => blocking(operator::run(command)),
        Command::Snapshot(command) => blocking(snapshot::run(command)),
        Command::Import(options) => blocking(import::run(options)),
        Command::Log(command) => log::run(command),
        Command::Version => return version(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed the pipe and needs no more.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn version() -> ExitCode {
    let (own, reference) = (env!("CARGO_PKG_VERSION"), crate::agent::REFERENCE_VERSION);
    let name = std::env::args_os().next().map(PathBuf::from);
    // Scripts of users who installed this program as `nomad` parse the first line.
    if name.is_some_and(|name| name.file_name().is_some_and(|name| name == "nomad")) {
        println!("Nomad v{reference}");
        println!("Songline v{own}");
    } else {
        println!("Songline v{own} (speaks the interface of Nomad v{reference})");
    }
    ExitCode::SUCCESS
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Accepts long options with one dash, as the reference does: `-dev`, `-config=FILE`. One letter is short:
/// `-t=false`.
fn two_dashes(arg: OsString) -> OsString {
    match arg.to_str() {
        Some(text)
            if text.len() > 2
                && text.starts_with('-')
                && !text.starts_with("--")
                && text.as_bytes()[1].is_ascii_alphabetic()
                && text.as_bytes()[2] != b'=' =>
        {
            OsString::from(format!("-{text}"))
        }
        _ => arg,
    }
}

fn blocking(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Reads a job file, HCL or JSON by its content, into the body of a registration.
pub(crate) fn read_job(path: &PathBuf) -> anyhow::Result<serde_json::Value> {
    use anyhow::Context;
    let source = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let (job, format) = if source.trim_start().starts_with('{') {
        let value: serde_json::Value =
            serde_json::from_str(&source).with_context(|| format!("reading {}", path.display()))?;
        (value.get("Job").cloned().unwrap_or(value), "json")
    } else {
        let entropy = uuid::Uuid::new_v4().as_u128();
        let options = songline_lang::jobspec::ParseOptions {
            filename: path.display().to_string(),
            entropy,
            ..Default::default()
        };
        let job =
            songline_lang::jobspec::parse(&source, &options).map_err(|diagnostics| anyhow::anyhow!("{diagnostics}"))?;
        (serde_json::to_value(job)?, "hcl2")
    };
    Ok(serde_json::json!({ "Job": job, "Submission": { "Source": source, "Format": format } }))
}
