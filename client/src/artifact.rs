//! Artifacts: files that the agent fetches into the allocation's directory before a task starts, over HTTP, from git
//! and Mercurial repositories, and from S3 and Google Cloud Storage.
//!
//! A separate process fetches each artifact ([`child`], confined by [`fence`]): it downloads ([`download`], [`bucket`],
//! [`vcs`]) and unpacks ([`unpack`]) into a staging directory. Parsers of untrusted input do not run in the agent. The
//! agent then moves the staged files to their destination ([`place`]).

mod bucket;
mod checksum;
pub(crate) mod child;
mod download;
mod fence;
pub(crate) mod place;
mod settings;
mod source;
mod subdir;
mod unpack;
mod unzip;
mod vcs;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;

use futures_util::{StreamExt, stream};
use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};
use songline_model::{Dur, Str, TaskArtifact};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::allocdir::PRIVATE;
use crate::beneath::{Dir, Owner};
use child::{Answer, Request, Staged};
pub use settings::ArtifactSettings;

/// Number of artifacts of one task that are fetched concurrently.
const WORKERS: usize = 3;
/// Time that a fetching process has beside that of its longest transfer.
const UNPACK_MAX: Dur = Dur::from_mins(5);
/// Largest depth of nested directories in one archive.
const DEPTH_MAX: u64 = 64;
/// Largest part of a fetching process's answer that the agent reads, in bytes.
const ANSWER_MAX: u64 = 64 << 10;
/// File in a task's private directory that lists the fetched artifacts.
const DONE: &str = "artifacts.done";

/// Reasons why an artifact could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    /// The job's specification of the artifact is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The server answered with this HTTP status.
    #[error("bad response code: {0}")]
    Status(u16),
    /// The transfer failed.
    #[error("error downloading: {0}")]
    Http(String),
    /// The transfer took longer than the agent's configuration allows.
    #[error("it took longer than {0}")]
    Timeout(Dur),
    /// A limit was exceeded.
    #[error("{what} is more than {most}")]
    TooMuch {
        /// Limited quantity.
        what: &'static str,
        /// Limit.
        most: u64,
    },
    /// The file does not have the checksum in the job.
    #[error("Checksums did not match. Expected: {expected} Got: {got}")]
    Checksum {
        /// Checksum in the job, in hexadecimal digits.
        expected: String,
        /// Actual checksum, in hexadecimal digits.
        got: String,
    },
    /// An I/O error, or a file that is no archive.
    #[error("{doing}: {source}")]
    Io {
        /// Failed operation.
        doing: &'static str,
        /// Cause.
        source: io::Error,
    },
}

/// Adds the operation to an I/O error.
fn doing(doing: &'static str) -> impl Fn(io::Error) -> ArtifactError {
    move |source| ArtifactError::Io { doing, source }
}

/// Refuses more than `most` of something.
fn within(what: &'static str, count: u64, most: u64) -> Result<(), ArtifactError> {
    if count > most { Err(ArtifactError::TooMuch { what, most }) } else { Ok(()) }
}

/// Directories that the artifacts of a task are placed in.
#[derive(Debug, Clone)]
pub(crate) struct Dirs {
    /// The allocation's directory. No artifact is placed outside of it.
    pub alloc: PathBuf,
    /// The task's name. The task's directory is below `alloc`, and destinations are relative to it.
    pub task: Str,
}

impl Dirs {
    fn task(&self) -> PathBuf {
        self.alloc.join(self.task.as_str())
    }

    /// Opens the task's private directory, which only the agent may enter. Creates it if it is missing.
    fn private(&self) -> io::Result<Dir> {
        Dir::open(&self.alloc)?.dir(self.task.as_str())?.make_private(PRIVATE, 0o700, None)
    }
}

/// An artifact whose variables are interpolated for this node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    /// Name as in the job, for messages.
    pub named: String,
    /// Interpolated artifact.
    pub artifact: TaskArtifact,
}

/// Artifacts that were not fetched before, each with its key in the task's list of fetched artifacts.
pub(crate) fn missing(wanted: impl Iterator<Item = Wanted>, dirs: &Dirs) -> Vec<(String, Wanted)> {
    let mut known = String::new();
    // Without the list every artifact is fetched again.
    let _ =
        dirs.private().and_then(|private| private.read(DONE)).and_then(|mut notes| notes.read_to_string(&mut known));
    wanted
        .map(|wanted| (key(&wanted.artifact), wanted))
        .filter(|(key, _)| !known.lines().any(|line| line == key))
        .collect()
}

/// How artifacts are fetched.
pub(crate) struct Fetcher<'a> {
    /// Command that starts an executor.
    pub executor: &'a [PathBuf],
    /// Bounds.
    pub settings: &'a ArtifactSettings,
}

/// Fetches the missing artifacts, each in a process of its own. After a failure the other artifacts are
/// fetched all the same; the first failure is returned. The future may be dropped at any time: its processes end with
/// it.
pub(crate) async fn fetch_all(missing: Vec<(String, Wanted)>, dirs: &Dirs, by: &Fetcher<'_>) -> Result<(), String> {
    let results = stream::iter(missing.into_iter().enumerate()).map(|(at, (key, wanted))| async move {
        let fetched = fetch(&wanted.artifact, dirs, at, by).await.and_then(|()| remember(dirs, &key));
        fetched.map_err(|error| format!("failed to download artifact {:?}: {error}", wanted.named))
    });
    let results: Vec<Result<(), String>> = results.buffer_unordered(WORKERS).collect().await;
    results.into_iter().collect()
}

/// Key of an artifact, independent of its place in the job.
fn key(artifact: &TaskArtifact) -> String {
    hex(&Sha256::digest(serde_json::to_vec(artifact).unwrap_or_default()))
}

fn remember(dirs: &Dirs, key: &str) -> Result<(), ArtifactError> {
    let file = dirs.private().and_then(|private| private.append(DONE, 0o600));
    file.and_then(|mut file| writeln!(file, "{key}")).map_err(doing("noting what was downloaded"))
}

async fn fetch(artifact: &TaskArtifact, dirs: &Dirs, at: usize, by: &Fetcher<'_>) -> Result<(), ArtifactError> {
    let to = place::destination(dirs, &artifact.relative_dest)?;
    let name = format!("artifact-{at}");
    let (private, staging) = staging(dirs, &name)?;
    let longest = Dur(by.settings.timeout_max().nanos().saturating_add(UNPACK_MAX.nanos()));
    let staged = match tokio::time::timeout(longest.to_std(), stage(artifact, &staging, by)).await {
        Ok(staged) => staged,
        Err(_) => Err(ArtifactError::Timeout(longest)),
    };
    let (alloc, mode) = (dirs.alloc.clone(), artifact.getter_mode.clone());
    let placed = tokio::task::spawn_blocking(move || {
        let placed = staged.and_then(|staged| {
            let alloc = Dir::open(&alloc).map_err(doing("opening the allocation's directory"))?;
            place::put(&alloc, &staging, &staged, &mode, &to)
        });
        placed.and(private.remove_all(&name).map_err(doing("clearing up")))
    });
    placed.await.map_err(|error| ArtifactError::Invalid(error.to_string()))?
}

/// Creates an empty staging directory that belongs to the user of the fetching process, in the task's private
/// directory, which no task may enter. Returns the private directory and the staging directory.
fn staging(dirs: &Dirs, name: &str) -> Result<(Dir, Dir), ArtifactError> {
    let private = dirs.private().map_err(doing("opening the task's private directory"))?;
    private.remove_all(name).map_err(doing("clearing up"))?;
    let owner: Option<Owner> = rustix::process::geteuid().is_root().then_some((fence::FETCH_ID, fence::FETCH_ID));
    let staging = private.make_private(name, 0o700, owner).map_err(doing("making a directory"))?;
    Ok((private, staging))
}

/// Kills a fetching process, and the programs that it has started, when it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            // The group is gone when its last process has ended.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// Starts a process that fetches an artifact into `staging`, and waits for its answer.
async fn stage(artifact: &TaskArtifact, staging: &Dir, by: &Fetcher<'_>) -> Result<Staged, ArtifactError> {
    let (program, first) =
        by.executor.split_first().ok_or_else(|| ArtifactError::Invalid("no executor is configured".to_owned()))?;
    let seen = by.settings.environment_variables.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    // The working directory is given by descriptor: its path leads through directories that tasks may change.
    let mut child = Command::new(program)
        .args(first)
        .args(["artifact", "."])
        .env_clear()
        .envs(seen)
        .current_dir(staging.path_of(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(doing("starting the fetching process"))?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let request = Request {
        artifact: artifact.clone(),
        settings: by.settings.clone(),
        runs_programs: source::runs_programs(&artifact.getter_source),
    };
    let asked = serde_json::to_vec(&request).map_err(|error| ArtifactError::Invalid(error.to_string()))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let exchange = async {
        // The process reads its input to the end, so the input is closed after the request.
        stdin.ok_or(io::ErrorKind::BrokenPipe)?.write_all(&asked).await?;
        let mut answer = Vec::new();
        stdout.ok_or(io::ErrorKind::BrokenPipe)?.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = exchange.await;
    // Before the process is reaped: until then its number is no other group's.
    drop(group);
    let answer = answer.map_err(doing("talking to the fetching process"))?;
    child.wait().await.map_err(doing("waiting for the fetching process"))?;
    match serde_json::from_slice(&answer) {
        Ok(Answer::Staged(staged)) => Ok(staged),
        Ok(Answer::Failed(why)) => Err(ArtifactError::Invalid(why)),
        Err(_) => Err(ArtifactError::Invalid("the fetching process ended without an answer".to_owned())),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
