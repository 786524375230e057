//! The process that fetches one artifact: reads a [`Request`] from its standard input, confines itself, downloads and
//! unpacks into its staging directory, and writes an [`Answer`] to its standard output. The agent trusts neither the
//! answer nor the staged files.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use songline_model::TaskArtifact;

use super::fence::{self, Fence};
use super::settings::ArtifactSettings;
use super::source::{Getter, Source};
use super::{ArtifactError, bucket, download, unpack, vcs};
use crate::beneath::Dir;

/// The agent's request to the process, as JSON. It is sent over a pipe because headers and sources may hold passwords.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The artifact with its texts interpolated.
    pub artifact: TaskArtifact,
    /// Bounds.
    pub settings: ArtifactSettings,
    /// Whether the artifact is fetched by programs of this machine, as the agent sees it.
    pub runs_programs: bool,
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
    let Request { artifact, settings, runs_programs } =
        serde_json::from_slice(&request).map_err(|error| ArtifactError::Invalid(error.to_string()))?;
    let fence = Fence {
        file_bytes_max: settings.file_bytes_max(),
        runs_programs,
        landlock: !settings.disable_filesystem_isolation,
    };
    let dir = fence::enter(staging, &fence).map_err(|error| ArtifactError::Invalid(error.to_string()))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(super::doing("starting"))?;
    let home = std::env::current_dir().map_err(super::doing("finding the staging directory"))?;
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    runtime.block_on(fetch(&artifact, &settings, &Place { staging: &dir, home: &home, env: &env }))
}

/// Surroundings of a fetching process.
pub(super) struct Place<'a> {
    /// The staging directory.
    pub staging: &'a Dir,
    /// Its path, for programs.
    pub home: &'a Path,
    /// Variables of the environment, without empty ones.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Downloads and unpacks an artifact into the staging directory.
pub(super) async fn fetch(
    artifact: &TaskArtifact,
    settings: &ArtifactSettings,
    place: &Place<'_>,
) -> Result<Staged, ArtifactError> {
    let staging = place.staging;
    let source = Source::parse(&artifact.getter_source, artifact.getter_options.iter().flatten())
        .map_err(ArtifactError::Invalid)?;
    source.accept(&artifact.getter_mode).map_err(ArtifactError::Invalid)?;
    match source.getter {
        Getter::Http => {
            let client = download::client(settings.http_read_timeout)?;
            let sum = download::expected(&client, &source).await?;
            let answer = download::send(download::request(&client, &source, artifact)).await?;
            let file = staging.create(unpack::DOWNLOAD, 0o644).map_err(super::doing("making a file"))?;
            let packed = download::is_packed(&answer, artifact);
            download::save(answer, packed, sum.as_ref(), file, settings.http_bytes_max).await?;
            unpack::stage(&source, &artifact.getter_mode, staging, settings)
        }
        Getter::S3 | Getter::Gcs => bucket::fetch(&source, &artifact.getter_mode, settings, place).await,
        Getter::Git => vcs::git(&source, settings, place).await,
        Getter::Hg => vcs::hg(&source, settings, place).await,
    }
}
