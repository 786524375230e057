//! Downloading one file over HTTP with its checksum. Runs in the fetching process only.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use flate2::write::MultiGzDecoder;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING};
use reqwest::{Client, RequestBuilder, Response};
use songline_model::{Dur, Str, TaskArtifact, with_sources};

use super::checksum::{Checksum, Hasher, SUMS_BYTES_MAX, Sum};
use super::source::Source;
use super::{ArtifactError, doing, within};

/// Longest time that connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// Error of a request. The text leaves out the address, which may hold a password.
pub(super) fn failed(error: reqwest::Error) -> ArtifactError {
    ArtifactError::Http(with_sources(&error.without_url()))
}

/// A client whose requests end after `timeout`, including their answers. Header names are capitalized, as some servers
/// of files compare them literally.
pub(super) fn client(timeout: Dur) -> Result<Client, ArtifactError> {
    let client = crate::tls::http_client().http1_title_case_headers();
    client.connect_timeout(CONNECT_MAX).timeout(timeout.to_std()).build().map_err(failed)
}

/// The request of an HTTP source, with the artifact's headers. The answer may come compressed, unless the artifact
/// says itself which encodings it takes.
pub(super) fn request(client: &Client, source: &Source, artifact: &TaskArtifact) -> RequestBuilder {
    // One request is all that the connection is for.
    let mut request = client.get(source.url.clone()).header(CONNECTION, "close");
    if takes_gzip(artifact) {
        request = request.header(ACCEPT_ENCODING, "gzip");
    }
    for (name, value) in artifact.getter_headers.iter().flatten() {
        request = request.header(name.as_str(), value.as_str());
    }
    request
}

/// Whether the agent itself asks for a compressed answer, and so unpacks it.
fn takes_gzip(artifact: &TaskArtifact) -> bool {
    let own = |name: &Str| name.eq_ignore_ascii_case(ACCEPT_ENCODING.as_str());
    !artifact.getter_headers.iter().flatten().any(|(name, _)| own(name))
}

/// Whether the answer to the request of an artifact is compressed on its way only.
pub(super) fn is_packed(answer: &Response, artifact: &TaskArtifact) -> bool {
    takes_gzip(artifact) && answer.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip")
}

/// Sends a request. A status that is no success is an error.
pub(super) async fn send(request: RequestBuilder) -> Result<Response, ArtifactError> {
    let answer = request.send().await.map_err(failed)?;
    if answer.status().is_success() { Ok(answer) } else { Err(ArtifactError::Status(answer.status().as_u16())) }
}

/// Writes an answer to a file, and checks its size and checksum. `packed` answers are unpacked first.
pub(super) async fn save(
    answer: Response,
    packed: bool,
    sum: Option<&Sum>,
    to: File,
    bytes_max: u64,
) -> Result<(), ArtifactError> {
    let mut unpacker = packed.then(|| MultiGzDecoder::new(Vec::new()));
    let (mut file, mut hash, mut length) = (BufWriter::new(to), Hasher::new(sum.map(|sum| sum.kind)), 0);
    // Nothing else runs in this process, so writing may block it.
    let mut put = |part: &[u8]| {
        length += part.len() as u64;
        within("its size in bytes", length, bytes_max)?;
        hash.update(part);
        file.write_all(part).map_err(doing("writing a file"))
    };
    let mut body = answer.bytes_stream();
    while let Some(part) = body.next().await {
        let part = part.map_err(failed)?;
        match &mut unpacker {
            None => put(&part)?,
            Some(unpacker) => {
                unpacker.write_all(&part).map_err(doing("unpacking the answer"))?;
                put(&std::mem::take(unpacker.get_mut()))?;
            }
        }
    }
    if let Some(unpacker) = unpacker {
        put(&unpacker.finish().map_err(doing("unpacking the answer"))?)?;
    }
    file.flush().map_err(doing("writing a file"))?;
    sum.map_or(Ok(()), |sum| sum.check(hash.finish()))
}

/// The checksum that the source is to have. A file of sums is downloaded; a relative address is beside the source.
pub(super) async fn expected(client: &Client, source: &Source) -> Result<Option<Sum>, ArtifactError> {
    let address = match &source.checksum {
        None => return Ok(None),
        Some(Checksum::Sum(sum)) => return Ok(Some(sum.clone())),
        Some(Checksum::File(address)) => address,
    };
    let invalid = |why: &dyn std::fmt::Display| ArtifactError::Invalid(format!("invalid checksum file: {why}"));
    let url = source.url.join(address).map_err(|error| invalid(&error))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(&format_args!("download not supported for scheme '{}'", url.scheme())));
    }
    let sums = body(send(client.get(url)).await?, SUMS_BYTES_MAX).await?;
    let name = source.url.path().rsplit('/').next().unwrap_or_default();
    let found = Sum::find(&String::from_utf8_lossy(&sums), name);
    found.map(Some).ok_or_else(|| invalid(&format_args!("it has no checksum of {name:?}")))
}

/// The body of a small answer.
pub(super) async fn body(answer: Response, bytes_max: u64) -> Result<Vec<u8>, ArtifactError> {
    let (mut all, mut body) = (Vec::new(), answer.bytes_stream());
    while let Some(part) = body.next().await {
        all.extend_from_slice(&part.map_err(failed)?);
        within("its size in bytes", all.len() as u64, bytes_max)?;
    }
    Ok(all)
}
