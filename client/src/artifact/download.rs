//! Downloading one file over HTTP with its checksum. Runs in the fetching process only.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use futures_util::StreamExt;
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};
use songline_model::{TaskArtifact, with_sources};

use super::source::{Checksum, Kind, Source};
use super::{ArtifactError, BYTES_MAX, doing, hex};

/// Longest time that connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// Longest time that one download may take.
const FETCH_MAX: Duration = Duration::from_mins(30);

/// Downloads what `source` names into `to`, with the artifact's headers, and checks its size and checksum.
pub(super) async fn download(source: &Source, artifact: &TaskArtifact, to: File) -> Result<(), ArtifactError> {
    // Error texts leave out the address, which may hold a password.
    let failed = |error: reqwest::Error| ArtifactError::Http(with_sources(&error.without_url()));
    let client = crate::tls::http_client().connect_timeout(CONNECT_MAX).timeout(FETCH_MAX).build().map_err(failed)?;
    let mut request = client.get(source.url.clone());
    for (name, value) in artifact.getter_headers.iter().flatten() {
        request = request.header(name.as_str(), value.as_str());
    }
    let answer = request.send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(ArtifactError::Status(answer.status().as_u16()));
    }
    // Nothing else runs in this process, so writing may block it.
    let mut file = BufWriter::new(to);
    let (mut hash, mut length) = (Hasher::new(source.checksum.as_ref()), 0);
    let mut body = answer.bytes_stream();
    while let Some(part) = body.next().await {
        let part = part.map_err(failed)?;
        length += part.len() as u64;
        if length > BYTES_MAX {
            return Err(ArtifactError::TooMuch { what: "its size in bytes", most: BYTES_MAX });
        }
        hash.update(&part);
        file.write_all(&part).map_err(doing("writing a file"))?;
    }
    file.flush().map_err(doing("writing a file"))?;
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

    /// Returns the digest in hexadecimal digits; empty when no checksum is wanted.
    fn finish(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Md5(hash) => hex(&hash.finalize()),
            Self::Sha256(hash) => hex(&hash.finalize()),
            Self::Sha512(hash) => hex(&hash.finalize()),
        }
    }
}
