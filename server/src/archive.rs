//! Snapshot archives: one self-contained, verified file that holds a whole state.
//!
//! The container is the reference's: a gzip-compressed tar of exactly `meta.json`, `state.bin` and `SHA256SUMS`. The
//! content of `state.bin` is our checkpoint, which carries its own digests. This module does not interpret the state.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;

const META: &str = "meta.json";
const STATE: &str = "state.bin";
const SUMS: &str = "SHA256SUMS";

/// Largest `meta.json` and `SHA256SUMS` that are read, in bytes: a bound against archives with false sizes.
const SMALL_BYTES_MAX: u64 = 16 << 20;

/// The archive's description of itself, in the reference's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Meta {
    /// Format version: 1.
    pub version: u32,
    /// `term-index-unix milliseconds`.
    #[serde(rename = "ID")]
    pub id: String,
    /// Raft index of the last entry that the state contains.
    pub index: u64,
    /// Raft term of that entry.
    pub term: u64,
    /// Base64 of the msgpack list of the servers' addresses.
    pub peers: String,
    /// Members of the cluster.
    pub configuration: Configuration,
    /// Index of the entry that set the configuration.
    pub configuration_index: u64,
    /// Size of `state.bin` in bytes.
    pub size: u64,
}

/// Members of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Configuration {
    /// One member for each server.
    pub servers: Vec<Member>,
}

/// One server of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Member {
    /// Suffrage; 0 is a voter.
    pub suffrage: u32,
    /// Server id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Server address.
    pub address: String,
}

/// Reasons to reject bytes as an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The bytes are not gzip.
    #[error("failed to decompress snapshot: {0}")]
    Compression(String),
    /// The content ends too early or is damaged.
    #[error("failed to read snapshot file: failed to read or write snapshot data: {0}")]
    Content(String),
    /// The tar has a member that does not belong there.
    #[error("failed to read snapshot file: unexpected file {0:?} in snapshot")]
    Unexpected(String),
    /// A member is missing or its checksum does not match.
    #[error("failed to read snapshot file: failed checking integrity of snapshot: {0}")]
    Integrity(String),
    /// `meta.json` cannot be parsed.
    #[error("failed to read snapshot file: failed to decode snapshot metadata: {0}")]
    Meta(#[from] serde_json::Error),
    /// The content could not be written to its destination.
    #[error("keeping the content of the snapshot")]
    Keep(#[source] io::Error),
}

/// Passes bytes through and computes their size and SHA-256.
pub struct Summed<W> {
    inner: W,
    sha256: Sha256,
    bytes: u64,
}

impl<W> Summed<W> {
    /// Wraps a writer or a reader.
    pub fn new(inner: W) -> Self {
        Self { inner, sha256: Sha256::new(), bytes: 0 }
    }

    /// Returns the wrapped stream and the sum of all bytes that passed.
    pub fn finish(self) -> (W, Sum) {
        (self.inner, Sum { bytes: self.bytes, sha256: self.sha256.finalize().into() })
    }
}

/// Size and SHA-256 of a byte sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// Number of bytes.
    pub bytes: u64,
    /// Their SHA-256.
    pub sha256: [u8; 32],
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes an archive. `state` gives the content of `state.bin`, whose size and sum were computed before, because a
/// tar names the size of a member before its bytes. `meta` is the description without the size.
pub(crate) fn write(mut meta: Meta, state: impl Read, sum: Sum, unix_secs: u64, out: impl Write) -> io::Result<()> {
    meta.size = sum.bytes;
    let mut description = serde_json::to_vec(&meta)?;
    description.push(b'\n');
    let sums = format!("{}  {META}\n{}  {STATE}\n", hex(&Sha256::digest(&description)), hex(&sum.sha256));
    let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::new(1)));
    let header = |bytes: u64| {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(unix_secs);
        header.set_entry_type(tar::EntryType::Regular);
        header
    };
    tar.append_data(&mut header(description.len() as u64), META, &description[..])?;
    tar.append_data(&mut header(sum.bytes), STATE, state.take(sum.bytes))?;
    tar.append_data(&mut header(sums.len() as u64), SUMS, sums.as_bytes())?;
    tar.into_inner()?.finish()?.flush()
}

/// Reads and verifies an archive: returns its description and writes its state to `state`. On an error the bytes
/// written to `state` have to be discarded.
pub fn read(mut input: impl Read, state: impl Write) -> Result<Meta, ArchiveError> {
    let mut magic = Vec::new();
    // Go reads the ten bytes of the gzip header before it checks them; the texts of the errors follow that.
    input.by_ref().take(10).read_to_end(&mut magic).map_err(|error| ArchiveError::Compression(error.to_string()))?;
    match magic.len() {
        0 => return Err(ArchiveError::Compression("EOF".into())),
        1..10 => return Err(ArchiveError::Compression("unexpected EOF".into())),
        _ if !magic.starts_with(&[0x1f, 0x8b]) => return Err(ArchiveError::Compression("gzip: invalid header".into())),
        _ => {}
    }
    let content = |error: io::Error| ArchiveError::Content(content_text(&error));
    let mut state = Some(state);
    let (mut meta, mut sums) = (None, None);
    let mut found = BTreeMap::new();
    let mut tar = tar::Archive::new(GzDecoder::new(magic.chain(input)));
    // Raw entries: tar extensions count as foreign members here. Without `raw`, long names and extended headers would
    // be read into memory at any length, and holes of sparse files would be filled up to the length that a header of
    // 512 bytes claims.
    for entry in tar.entries().map_err(content)?.raw(true) {
        let mut entry = entry.map_err(content)?;
        let name = entry.path().map_err(content)?.to_string_lossy().into_owned();
        let slot = match name.as_str() {
            META => &mut meta,
            SUMS => &mut sums,
            STATE => {
                // A second `state.bin` is rejected like any other foreign file.
                let state = state.take().ok_or(ArchiveError::Unexpected(name))?;
                found.insert(STATE, pour(entry, state)?);
                continue;
            }
            _ => return Err(ArchiveError::Unexpected(name)),
        };
        if slot.is_some() || entry.size() > SMALL_BYTES_MAX {
            return Err(ArchiveError::Unexpected(name));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(content)?;
        *slot = Some(bytes);
    }
    // Read the tar's padding and the gzip checksum: only the end of the stream proves that it is whole.
    let mut rest = Vec::new();
    tar.into_inner().take(SMALL_BYTES_MAX).read_to_end(&mut rest).map_err(content)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(ArchiveError::Integrity(format!("{} unread uncompressed bytes remain", rest.len())));
    }
    let meta = meta.ok_or_else(|| ArchiveError::Integrity(format!("file missing for {META:?}")))?;
    found.insert(META, hex(&Sha256::digest(&meta)));
    let sums = sums.ok_or_else(|| ArchiveError::Integrity(format!("file missing for {SUMS:?}")))?;
    let sums = String::from_utf8_lossy(&sums);
    for name in [META, STATE] {
        let sum = found.get(name).ok_or_else(|| ArchiveError::Integrity(format!("file missing for {name:?}")))?;
        let listed = sums.lines().filter_map(|line| line.split_once("  ")).find(|(_, listed)| *listed == name);
        let (listed, _) = listed.ok_or_else(|| ArchiveError::Integrity(format!("list missing hash for {name:?}")))?;
        if listed != sum {
            return Err(ArchiveError::Integrity(format!("hash check failed for {name:?}")));
        }
    }
    Ok(serde_json::from_slice(&meta)?)
}

/// Copies a member and returns its SHA-256 in hexadecimal.
fn pour(mut from: impl Read, to: impl Write) -> Result<String, ArchiveError> {
    let mut to = Summed::new(to);
    let mut block = vec![0; 256 * 1024];
    loop {
        match from.read(&mut block) {
            Ok(0) => break,
            Ok(read) => to.write_all(&block[..read]).map_err(ArchiveError::Keep)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ArchiveError::Content(content_text(&error))),
        }
    }
    let (mut to, sum) = to.finish();
    to.flush().map_err(ArchiveError::Keep)?;
    Ok(hex(&sum.sha256))
}

/// The value of the `Digest` header of an archive with this SHA-256.
pub fn digest_header(sha256: &[u8; 32]) -> String {
    format!("sha-256={}", STANDARD.encode(sha256))
}

/// Go's text for a stream that ends too early: clients show it.
fn content_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "unexpected EOF".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            version: 1,
            id: "1-7-5".into(),
            index: 7,
            term: 1,
            peers: String::new(),
            configuration: Configuration { servers: Vec::new() },
            configuration_index: 1,
            size: 0,
        }
    }

    fn sample() -> Vec<u8> {
        let state = &b"the state"[..];
        let sum = Sum { bytes: state.len() as u64, sha256: Sha256::digest(state).into() };
        let mut out = Vec::new();
        write(meta(), state, sum, 5, &mut out).expect("writes to memory");
        out
    }

    fn read_all(bytes: &[u8]) -> Result<(Meta, Vec<u8>), ArchiveError> {
        let mut state = Vec::new();
        read(bytes, &mut state).map(|meta| (meta, state))
    }

    /// Builds an archive of these members, valid or not.
    fn packed(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::new(1)));
        for (name, bytes) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, name, *bytes).expect("packs");
        }
        tar.into_inner().and_then(GzEncoder::finish).expect("packs")
    }

    #[test]
    fn written_archive_is_read_back() {
        let (meta, state) = read_all(&sample()).expect("reads");
        assert_eq!((meta.index, meta.size, &state[..]), (7, 9, &b"the state"[..]));
    }

    #[test]
    fn damaged_or_truncated_archive_never_yields_other_content() {
        let good = sample();
        let (meta, state) = read_all(&good).expect("reads");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            if let Ok(found) = read_all(&bad) {
                assert_eq!(found, (meta.clone(), state.clone()), "byte {at} changed what was read");
            }
            assert!(read_all(&good[..at]).is_err(), "cut at {at}");
        }
    }

    /// A header in GNU tar format.
    fn gnu(name: &str, kind: tar::EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).expect("is short");
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        header
    }

    #[test]
    fn sparse_state_of_an_archive_is_not_expanded() {
        let mut header = gnu(STATE, tar::EntryType::GNUSparse, 0);
        let sparse = header.as_gnu_mut().expect("is of GNU's");
        // One empty block, 64 MiB behind the start. A header could as well name 8 GiB.
        sparse.sparse[0].offset.copy_from_slice(b"00400000000\0");
        sparse.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
        sparse.realsize.copy_from_slice(b"00400000000\0");
        header.set_cksum();
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::new(1)));
        tar.append(&header, io::empty()).expect("packs");
        let bytes = tar.into_inner().and_then(GzEncoder::finish).expect("packs");
        let mut state = Vec::new();
        assert!(read(&bytes[..], &mut state).is_err(), "an archive without sums is refused");
        assert_eq!(state.len(), 0, "a state of {} bytes came out of an archive of {}", state.len(), bytes.len());
    }

    #[test]
    fn tar_extension_members_of_an_archive_are_refused() {
        let long = vec![b'n'; 1 << 20];
        for kind in [tar::EntryType::GNULongName, tar::EntryType::GNULongLink, tar::EntryType::XHeader] {
            let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::new(1)));
            tar.append(&gnu("x", kind, long.len() as u64), &long[..]).expect("packs");
            tar.append(&gnu(STATE, tar::EntryType::Regular, 1), &b"y"[..]).expect("packs");
            let bytes = tar.into_inner().and_then(GzEncoder::finish).expect("packs");
            let error = read_all(&bytes).expect_err("is no archive").to_string();
            assert_eq!(error, "failed to read snapshot file: unexpected file \"x\" in snapshot", "{kind:?}");
        }
    }

    #[test]
    fn invalid_archives_are_refused_with_the_reference_errors() {
        let sums = "00  meta.json\n00  state.bin\n";
        for (bytes, text) in [
            (b"".to_vec(), "failed to decompress snapshot: EOF"),
            (b"hello, world".to_vec(), "failed to decompress snapshot: gzip: invalid header"),
            (b"hello".to_vec(), "failed to decompress snapshot: unexpected EOF"),
            (
                sample()[..40].to_vec(),
                "failed to read snapshot file: failed to read or write snapshot data: unexpected EOF",
            ),
            (packed(&[("x", b"y")]), "failed to read snapshot file: unexpected file \"x\" in snapshot"),
            (
                packed(&[(STATE, b"y"), (STATE, b"y")]),
                "failed to read snapshot file: unexpected file \"state.bin\" in snapshot",
            ),
            (
                packed(&[(META, b"{}"), (STATE, b"y")]),
                "failed to read snapshot file: failed checking integrity of snapshot: file missing for \"SHA256SUMS\"",
            ),
            (
                packed(&[(META, b"{}"), (SUMS, sums.as_bytes())]),
                "failed to read snapshot file: failed checking integrity of snapshot: hash check failed for \"meta.json\"",
            ),
            (
                packed(&[(META, b"{}"), (STATE, b""), (SUMS, b"")]),
                "failed to read snapshot file: failed checking integrity of snapshot: list missing hash for \"meta.json\"",
            ),
        ] {
            assert_eq!(read_all(&bytes).expect_err("is no archive").to_string(), text);
        }
    }
}
