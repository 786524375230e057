//! Fetching of objects from S3, and services that speak its API, and from Google Cloud Storage. Runs in the fetching
//! process only.
//!
//! A source is one object, or all objects whose names begin with its path and a slash: a directory.

mod gcs;
mod s3;

use std::path::Path;

use reqwest::{Client, RequestBuilder};

use super::checksum::Sum;
use super::child::{Place, STAGED, Staged};
use super::settings::ArtifactSettings;
use super::source::{Getter, Source};
use super::unpack::{self, inside};
use super::{ArtifactError, doing, download, subdir, within};
use crate::beneath::Dir;

/// Largest size of one page of a listing, in bytes. A page has at most 1000 objects.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// Largest number of objects of one directory.
const OBJECTS_MAX: u64 = 100_000;

/// One page of a listing: names of objects, and the mark at which the next page begins.
struct Page {
    keys: Vec<String>,
    next: Option<String>,
}

/// A bucket, and how it is asked.
enum Bucket {
    S3(s3::Bucket),
    Gcs(gcs::Bucket),
}

impl Bucket {
    fn object(&self, client: &Client, key: &str) -> RequestBuilder {
        match self {
            Self::S3(bucket) => bucket.object(client, key),
            Self::Gcs(bucket) => bucket.object(client, key),
        }
    }

    fn list(&self, client: &Client, prefix: &str, from: Option<&str>) -> RequestBuilder {
        match self {
            Self::S3(bucket) => bucket.list(client, prefix, from),
            Self::Gcs(bucket) => bucket.list(client, prefix, from),
        }
    }

    fn page(&self, body: &[u8]) -> Result<Page, String> {
        match self {
            Self::S3(_) => s3::page(body),
            Self::Gcs(_) => gcs::page(body),
        }
    }
}

/// Fetches an object or a directory.
pub(super) async fn fetch(
    source: &Source,
    mode: &str,
    settings: &ArtifactSettings,
    place: &Place<'_>,
) -> Result<Staged, ArtifactError> {
    let (staging, env) = (place.staging, place.env);
    let (found, timeout) = match source.getter {
        Getter::Gcs => (gcs::parse(source, env).map(|(bucket, key)| (Bucket::Gcs(bucket), key)), settings.gcs_timeout),
        Getter::S3 | Getter::Http | Getter::Git | Getter::Hg => {
            (s3::parse(source, env).map(|(bucket, key)| (Bucket::S3(bucket), key)), settings.s3_timeout)
        }
    };
    let (bucket, key) = found.map_err(ArtifactError::Invalid)?;
    let client = download::client(timeout)?;
    let task = Task { bucket, key, client, settings, staging };
    let fetched = async {
        let sum = download::expected(&task.client, source).await?;
        // A directory that could be a file is one only if there is no such file.
        let none = match mode {
            "dir" if !source.archive.is_tree() => None,
            _ => match task.object(sum.as_ref()).await {
                Ok(()) => return unpack::stage(source, mode, staging, settings),
                // A listing may be allowed where reading a missing object is refused.
                Err(error @ ArtifactError::Status(403 | 404)) if mode != "file" && sum.is_none() => Some(error),
                Err(error) => return Err(error),
            },
        };
        let tree = task.directory().await?;
        match (tree, none) {
            (true, _) => Ok(Staged::Tree { subdir: subdir::find(staging, &source.subdir)? }),
            (false, Some(error)) => Err(error),
            (false, None) => Err(ArtifactError::Invalid(format!("no object is below {:?}", task.key))),
        }
    };
    match tokio::time::timeout(timeout.to_std(), fetched).await {
        Ok(staged) => staged,
        Err(_) => Err(ArtifactError::Timeout(timeout)),
    }
}

struct Task<'a> {
    bucket: Bucket,
    key: String,
    client: Client,
    settings: &'a ArtifactSettings,
    staging: &'a Dir,
}

impl Task<'_> {
    /// Downloads the object of the source.
    async fn object(&self, sum: Option<&Sum>) -> Result<(), ArtifactError> {
        let answer = download::send(self.bucket.object(&self.client, &self.key)).await?;
        let file = self.staging.create(unpack::DOWNLOAD, 0o644).map_err(doing("making a file"))?;
        download::save(answer, false, sum, file, self.settings.http_bytes_max).await
    }

    /// Downloads all objects below the source. `false`: there are none.
    async fn directory(&self) -> Result<bool, ArtifactError> {
        let prefix = match self.key.trim_end_matches('/') {
            "" => String::new(),
            key => format!("{key}/"),
        };
        let root = self.staging.make_dir(STAGED, 0o755).map_err(doing("making a directory"))?;
        let (mut from, mut objects) = (None, 0);
        loop {
            let answer = download::send(self.bucket.list(&self.client, &prefix, from.as_deref())).await?;
            let body = download::body(answer, PAGE_BYTES_MAX).await?;
            let page = self.bucket.page(&body).map_err(|why| ArtifactError::Invalid(format!("listing: {why}")))?;
            for key in &page.keys {
                // A name that ends with a slash marks an empty directory.
                let Some(name) = key.strip_prefix(&prefix).filter(|name| !name.is_empty()) else { continue };
                objects += 1;
                within("its number of objects", objects, OBJECTS_MAX)?;
                self.member(&root, key, name).await?;
            }
            match page.next {
                Some(next) if from.as_ref() != Some(&next) => from = Some(next),
                Some(_) | None => return Ok(objects > 0),
            }
        }
    }

    async fn member(&self, root: &Dir, key: &str, name: &str) -> Result<(), ArtifactError> {
        let path = inside(Path::new(name))?;
        if name.ends_with('/') {
            return root.make_dirs(&path, 0o755).map(drop).map_err(doing("making a directory"));
        }
        let parent = root.make_dirs(path.parent().unwrap_or(Path::new("")), 0o755);
        let parent = parent.map_err(doing("making a directory"))?;
        let name = path.file_name().ok_or_else(|| ArtifactError::Invalid(format!("invalid object name: {key:?}")))?;
        let answer = download::send(self.bucket.object(&self.client, key)).await?;
        let file = parent.create(name, 0o644).map_err(doing("making a file"))?;
        download::save(answer, false, None, file, self.settings.http_bytes_max).await
    }
}

/// Decodes a percent-encoded path of an address.
fn decoded(path: &str) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                out.push(byte);
                rest = &after[2..];
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
