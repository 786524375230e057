//! Artifacts: what a task wants fetched before it starts, into its allocation's directory. What a source says is read in [`source`]; archives
//! and where files go are in [`place`]. Sources are `http`; there is no TLS here, and files of the node are not given to jobs.

mod place;
mod source;
mod unpack;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};
use songline_model::{TaskArtifact, with_sources};
use tokio::io::AsyncWriteExt;

use crate::allocdir::PRIVATE;
use crate::beneath::Dir;
use source::{Checksum, Kind, Source};

/// How many are fetched at a time.
const WORKERS: usize = 3;
/// How long one may take.
const FETCH_MAX: Duration = Duration::from_secs(30 * 60);
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// How large one may be, in bytes, before it is unpacked; and after, too.
const BYTES_MAX: u64 = 100_000_000_000;
/// The file in a task's private directory that says which have been fetched.
const DONE: &str = "artifacts.done";
/// What is downloaded is first called so, in a directory of the agent's.
const DOWNLOAD: &str = "download";

/// Why an artifact could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    /// What the job says cannot be meant.
    #[error("{0}")]
    Invalid(String),
    /// The other side has another opinion.
    #[error("bad response code: {0}")]
    Status(u16),
    /// It did not get here.
    #[error("error downloading: {0}")]
    Http(String),
    /// It is more than may be.
    #[error("{what} is more than {most}")]
    TooMuch {
        /// What was counted.
        what: &'static str,
        /// How much may be.
        most: u64,
    },
    /// It is not what the job wants.
    #[error("Checksums did not match. Expected: {expected} Got: {got}")]
    Checksum {
        /// In hexadecimal digits.
        expected: String,
        /// In hexadecimal digits.
        got: String,
    },
    /// The disk, or an archive that is none.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Names what was being done when something failed.
fn doing(doing: &'static str) -> impl Fn(io::Error) -> ArtifactError {
    move |source| ArtifactError::Io { doing, source }
}

/// Where artifacts go.
#[derive(Debug, Clone)]
pub(crate) struct Dirs {
    /// The allocation's directory, which nothing leaves.
    pub alloc: PathBuf,
    /// The task's, in which destinations begin.
    pub task: PathBuf,
}

impl Dirs {
    /// Opens the allocation's directory.
    fn open(&self) -> io::Result<Dir> {
        Dir::open(&self.alloc)
    }

    /// Opens what only the agent sees of the task's directory.
    fn private(&self) -> io::Result<Dir> {
        let task = self.task.strip_prefix(&self.alloc).map_err(io::Error::other)?;
        self.open()?.dir(task)?.make_private(PRIVATE, 0o700, None)
    }
}

/// An artifact whose texts are replaced by what they stand for on this node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    /// As the job has it: what people know it by.
    pub named: String,
    /// What is meant.
    pub artifact: TaskArtifact,
}

/// Which of these have not been fetched before, each with its name in the task's notes.
pub(crate) fn missing(wanted: impl Iterator<Item = Wanted>, dirs: &Dirs) -> Vec<(String, Wanted)> {
    let known = dirs.private().and_then(|private| io::read_to_string(private.read(DONE)?)).unwrap_or_default();
    wanted.map(|wanted| (key(&wanted.artifact), wanted)).filter(|(key, _)| !known.lines().any(|line| line == key)).collect()
}

/// Fetches what is missing. The first failure is told; the others are fetched all the same. May be dropped at any time.
pub(crate) async fn fetch_all(missing: Vec<(String, Wanted)>, dirs: &Dirs) -> Result<(), String> {
    let client = crate::tls::http_client().connect_timeout(CONNECT_MAX).timeout(FETCH_MAX).build();
    let client = client.map_err(|error| format!("failed to download artifacts: {error}"))?;
    let results = stream::iter(missing.into_iter().enumerate()).map(|(at, (key, wanted))| {
        let client = client.clone();
        async move {
            let fetched = fetch(&client, &wanted.artifact, dirs, at).await.and_then(|()| remember(dirs, &key));
            fetched.map_err(|error| format!("failed to download artifact {:?}: {error}", wanted.named))
        }
    });
    let results: Vec<Result<(), String>> = results.buffer_unordered(WORKERS).collect().await;
    results.into_iter().collect()
}

/// Names an artifact whatever its place in the job.
fn key(artifact: &TaskArtifact) -> String {
    hex(&Sha256::digest(serde_json::to_vec(artifact).unwrap_or_default()))
}

fn remember(dirs: &Dirs, key: &str) -> Result<(), ArtifactError> {
    let file = dirs.private().and_then(|private| private.append(DONE, 0o600));
    file.and_then(|mut file| writeln!(file, "{key}")).map_err(doing("noting what was downloaded"))
}

async fn fetch(client: &reqwest::Client, artifact: &TaskArtifact, dirs: &Dirs, at: usize) -> Result<(), ArtifactError> {
    let source = Source::parse(&artifact.getter_source, artifact.getter_options.iter().flatten()).map_err(ArtifactError::Invalid)?;
    let to = place::destination(dirs, &artifact.relative_dest)?;
    // Nobody but this agent gets in there, so nothing changes between looking and using.
    let private = dirs.private().map_err(doing("opening a directory"))?;
    let name = format!("artifact-{at}");
    private.remove_all(&name).map_err(doing("clearing up"))?;
    let staging = private.make_dir(&name, 0o700).map_err(doing("making a directory"))?;
    let result = async {
        let file = staging.create(DOWNLOAD, 0o644).map_err(doing("making a file"))?;
        download(client, &source, artifact, file).await?;
        let (dirs, mode) = (dirs.clone(), artifact.getter_mode.clone());
        let placed = tokio::task::spawn_blocking(move || place::put(&dirs, &source, &mode, &staging, &to));
        placed.await.map_err(|error| ArtifactError::Invalid(error.to_string()))?
    };
    let result = result.await;
    result.and(private.remove_all(&name).map_err(doing("clearing up")))
}

async fn download(client: &reqwest::Client, source: &Source, artifact: &TaskArtifact, to: File) -> Result<(), ArtifactError> {
    // Without the address: it may hold what is nobody's business.
    let failed = |error: reqwest::Error| ArtifactError::Http(with_sources(&error.without_url()));
    let mut request = client.get(source.url.clone());
    for (name, value) in artifact.getter_headers.iter().flatten() {
        request = request.header(name.as_str(), value.as_str());
    }
    let answer = request.send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(ArtifactError::Status(answer.status().as_u16()));
    }
    let mut file = tokio::fs::File::from_std(to);
    let (mut hash, mut length) = (Hasher::new(source.checksum.as_ref()), 0);
    let mut body = answer.bytes_stream();
    while let Some(part) = body.next().await {
        let part = part.map_err(failed)?;
        length += part.len() as u64;
        if length > BYTES_MAX {
            return Err(ArtifactError::TooMuch { what: "its size in bytes", most: BYTES_MAX });
        }
        hash.update(&part);
        file.write_all(&part).await.map_err(doing("writing a file"))?;
    }
    file.flush().await.map_err(doing("writing a file"))?;
    let got = hash.finish();
    match &source.checksum {
        Some(Checksum { value, .. }) if *value != got => Err(ArtifactError::Checksum { expected: value.clone(), got }),
        Some(_) | None => Ok(()),
    }
}

enum Hasher {
    None,
    Md5(Md5),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hasher {
    fn new(checksum: Option<&Checksum>) -> Self {
        match checksum.map(|checksum| checksum.kind) {
            None => Self::None,
            Some(Kind::Md5) => Self::Md5(Md5::new()),
            Some(Kind::Sha256) => Self::Sha256(Sha256::new()),
            Some(Kind::Sha512) => Self::Sha512(Box::new(Sha512::new())),
        }
    }

    fn update(&mut self, part: &[u8]) {
        match self {
            Self::None => {}
            Self::Md5(hash) => hash.update(part),
            Self::Sha256(hash) => hash.update(part),
            Self::Sha512(hash) => hash.update(part),
        }
    }

    /// In hexadecimal digits; empty when nothing was wanted.
    fn finish(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Md5(hash) => hex(&hash.finalize()),
            Self::Sha256(hash) => hex(&hash.finalize()),
            Self::Sha512(hash) => hex(&hash.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
