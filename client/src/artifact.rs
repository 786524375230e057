//! Artifacts: files that the agent fetches into the allocation's directory before a task starts. Sources are `http` and
//! `https`.
//!
//! A separate process fetches each artifact ([`child`], confined by [`fence`]): it downloads ([`download`]) and unpacks
//! ([`unpack`]) into a staging directory. Parsers of untrusted input do not run in the agent. The agent then moves the
//! staged files to their destination ([`place`]).

pub(crate) mod child;
mod download;
mod fence;
pub(crate) mod place;
mod source;
mod unpack;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use songline_model::{Str, TaskArtifact};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::allocdir::PRIVATE;
use crate::beneath::{Dir, Owner};
use child::{Answer, Request, Staged};

/// Number of artifacts of one task that are fetched concurrently.
const WORKERS: usize = 3;
/// Longest time that fetching one artifact may take, from the start of its process to its end.
const FETCH_MAX: Duration = Duration::from_mins(35);
/// Largest size of one artifact in bytes, both before and after it is unpacked.
const BYTES_MAX: u64 = 100_000_000_000;
/// Largest number of members of one archive.
const FILES_MAX: u64 = 4096;
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

/// Fetches the missing artifacts, each in a process that `executor` starts. After a failure the other artifacts are
/// fetched all the same; the first failure is returned. The future may be dropped at any time: its processes end with
/// it.
pub(crate) async fn fetch_all(missing: Vec<(String, Wanted)>, dirs: &Dirs, executor: &[PathBuf]) -> Result<(), String> {
    let results = stream::iter(missing.into_iter().enumerate()).map(|(at, (key, wanted))| async move {
        let fetched = fetch(&wanted.artifact, dirs, at, executor).await.and_then(|()| remember(dirs, &key));
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

async fn fetch(artifact: &TaskArtifact, dirs: &Dirs, at: usize, executor: &[PathBuf]) -> Result<(), ArtifactError> {
    let to = place::destination(dirs, &artifact.relative_dest)?;
    let name = format!("artifact-{at}");
    let (private, staging) = staging(dirs, &name)?;
    let staged = match tokio::time::timeout(FETCH_MAX, stage(artifact, &staging, executor)).await {
        Ok(staged) => staged,
        Err(_) => Err(ArtifactError::Invalid(format!("it took longer than {} s", FETCH_MAX.as_secs()))),
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

/// Starts a process that fetches an artifact into `staging`, and waits for its answer.
async fn stage(artifact: &TaskArtifact, staging: &Dir, executor: &[PathBuf]) -> Result<Staged, ArtifactError> {
    let (program, first) =
        executor.split_first().ok_or_else(|| ArtifactError::Invalid("no executor is configured".to_owned()))?;
    // The working directory is given by descriptor: its path leads through directories that tasks may change.
    let mut child = Command::new(program)
        .args(first)
        .args(["artifact", "."])
        .env_clear()
        .current_dir(staging.path_of(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(doing("starting the fetching process"))?;
    let asked = serde_json::to_vec(&Request { artifact: artifact.clone() })
        .map_err(|error| ArtifactError::Invalid(error.to_string()))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let exchange = async {
        // The process reads its input to the end, so the input is closed after the request.
        stdin.ok_or(io::ErrorKind::BrokenPipe)?.write_all(&asked).await?;
        let mut answer = Vec::new();
        stdout.ok_or(io::ErrorKind::BrokenPipe)?.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        child.wait().await?;
        io::Result::Ok(answer)
    };
    let answer = exchange.await.map_err(doing("talking to the fetching process"))?;
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
