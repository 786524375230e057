//! The process that fetches one artifact: reads a [`Request`] from its standard input, confines itself, downloads and
//! unpacks into its staging directory, and writes an [`Answer`] to its standard output. The agent trusts neither the
//! answer nor the staged files.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use songline_model::TaskArtifact;

use super::source::{Archive, Source};
use super::{ArtifactError, BYTES_MAX, download, fence, unpack};
use crate::beneath::Dir;

/// The agent's request to the process, as JSON. It is sent over a pipe because headers and sources may hold passwords.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The artifact with its texts interpolated.
    pub artifact: TaskArtifact,
}

/// The answer of the process, as JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The artifact is staged.
    Staged(Staged),
    /// The artifact cannot be fetched, for this reason.
    Failed(String),
}

/// Content of the staging directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Staged {
    /// One file, [`STAGED`], whose name at the destination is `name`.
    File {
        /// A single path component.
        name: String,
    },
    /// A directory, [`STAGED`], of which everything below `subdir` is wanted.
    Tree {
        /// Path relative to the staged directory; empty means the whole directory.
        subdir: String,
    },
}

/// The name of the staged file or directory.
pub(super) const STAGED: &str = "staged";

/// Runs the hidden subcommand `executor artifact DIR`.
pub(crate) fn main(staging: &Path) -> ExitCode {
    let answer = match fetch_fenced(staging) {
        Ok(staged) => Answer::Staged(staged),
        Err(error) => Answer::Failed(error.to_string()),
    };
    let told = serde_json::to_vec(&answer).map_err(io::Error::other).and_then(|answer| io::stdout().write_all(&answer));
    if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fetch_fenced(staging: &Path) -> Result<Staged, ArtifactError> {
    let mut request = Vec::new();
    io::stdin().read_to_end(&mut request).map_err(super::doing("reading the request"))?;
    let Request { artifact } =
        serde_json::from_slice(&request).map_err(|error| ArtifactError::Invalid(error.to_string()))?;
    let dir = fence::enter(staging, BYTES_MAX).map_err(|error| ArtifactError::Invalid(error.to_string()))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(super::doing("starting"))?;
    runtime.block_on(fetch(&artifact, &dir))
}

/// Downloads and unpacks an artifact into `staging`.
pub(super) async fn fetch(artifact: &TaskArtifact, staging: &Dir) -> Result<Staged, ArtifactError> {
    let source = Source::parse(&artifact.getter_source, artifact.getter_options.iter().flatten())
        .map_err(ArtifactError::Invalid)?;
    accept(&source, &artifact.getter_mode)?;
    let file = staging.create(unpack::DOWNLOAD, 0o644).map_err(super::doing("making a file"))?;
    download::download(&source, artifact, file).await?;
    unpack::stage(&source, staging)
}

/// Refuses an artifact that could not be placed, before it is downloaded.
fn accept(source: &Source, mode: &str) -> Result<(), ArtifactError> {
    let invalid = |why: &str| Err(ArtifactError::Invalid(why.to_owned()));
    match (source.archive, mode) {
        (Archive::None, "dir") => invalid("source is a file, and a directory is wanted"),
        (Archive::Tar | Archive::TarGz, "file") => invalid("source is a directory, and a file is wanted"),
        (Archive::None | Archive::Gz, mode) if mode != "file" && source.filename.trim_end_matches(".gz").is_empty() => {
            invalid("the source has no file name")
        }
        _ => Ok(()),
    }
}
