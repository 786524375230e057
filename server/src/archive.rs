//! Snapshot archives: one self-contained, verified file that holds a whole state.
//!
//! The container is the reference's: a gzip-compressed tar of exactly `meta.json`, `state.bin` and `SHA256SUMS`. The
//! content of `state.bin` is our checkpoint, which carries its own digests. This module does not interpret the state.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;

const META: &str = "meta.json";
const STATE: &str = "state.bin";
const SUMS: &str = "SHA256SUMS";

/// Largest `meta.json` and `SHA256SUMS` that are read, in bytes: a bound against archives with false sizes.
const SMALL_BYTES_MAX: u64 = 16 << 20;

/// Format version of archives.
const VERSION: u32 = 1;

/// Size of a tar's blocks, in bytes.
const BLOCK_BYTES: usize = 512;

/// Number of characters of a name that an error shows.
const NAME_SHOWN_MAX: usize = 100;

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
    /// Bytes follow the end of the tar.
    #[error("{0} unread uncompressed bytes remain")]
    Trailing(usize),
    /// `meta.json` names another format version.
    #[error("failed to read snapshot file: unsupported snapshot version {0}")]
    Version(u32),
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
    // All members of the gzip stream, so that none follows unread.
    let mut tar = tar::Archive::new(MultiGzDecoder::new(magic.chain(input)));
    let members = members(&mut tar, state)?;
    read_end(tar.into_inner())?;
    let meta: Meta = serde_json::from_slice(verified(&members)?)?;
    if meta.version != VERSION {
        return Err(ArchiveError::Version(meta.version));
    }
    match members.state.map(|sum| sum.bytes) {
        Some(bytes) if bytes != meta.size => {
            Err(ArchiveError::Integrity(format!("{STATE:?} has {bytes} bytes, {META:?} names {}", meta.size)))
        }
        Some(_) | None => Ok(meta),
    }
}

/// The members of an archive.
#[derive(Default)]
struct Members {
    meta: Option<Vec<u8>>,
    sums: Option<Vec<u8>>,
    /// Sum of the state, whose bytes were written to their destination.
    state: Option<Sum>,
}

/// Reads the members of a tar.
fn members<R: Read>(tar: &mut tar::Archive<R>, state: impl Write) -> Result<Members, ArchiveError> {
    let mut state = Some(state);
    let mut members = Members::default();
    // Raw entries: tar extensions count as foreign members here. Without `raw`, long names and extended headers would
    // be read into memory at any length, and holes of sparse files would be filled up to the length that a header of
    // 512 bytes claims.
    for entry in tar.entries().map_err(content)?.raw(true) {
        let mut entry = entry.map_err(content)?;
        let name = entry.path().map_err(content)?.to_string_lossy().into_owned();
        let slot = match name.as_str() {
            META => &mut members.meta,
            SUMS => &mut members.sums,
            STATE => {
                // A second `state.bin` is rejected like any other foreign file.
                let state = state.take().ok_or(ArchiveError::Unexpected(name))?;
                members.state = Some(pour(entry, state)?);
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
    Ok(members)
}

/// Reads what follows the members: the second of the two zero blocks that end a tar, and nothing else. The first one
/// was read with the members. Only the end of the stream proves that it is whole: the gzip checksum is there.
fn read_end(rest: impl Read) -> Result<(), ArchiveError> {
    let mut read = Vec::new();
    rest.take(SMALL_BYTES_MAX).read_to_end(&mut read).map_err(content)?;
    let Some((block, unread)) = read.split_at_checked(BLOCK_BYTES) else {
        return Err(ArchiveError::Content("unexpected EOF".into()));
    };
    if block.iter().any(|byte| *byte != 0) {
        return Err(ArchiveError::Trailing(read.len()));
    }
    if unread.is_empty() { Ok(()) } else { Err(ArchiveError::Trailing(unread.len())) }
}

/// The archive's description, once the list has the right sum of each member, and no other line.
fn verified(members: &Members) -> Result<&[u8], ArchiveError> {
    let missing = |name: &str| ArchiveError::Integrity(format!("file missing for {name:?}"));
    let meta = members.meta.as_deref().ok_or_else(|| missing(META))?;
    let sums = members.sums.as_deref().ok_or_else(|| missing(SUMS))?;
    let sums = String::from_utf8_lossy(sums);
    let listed = listed(&sums)?;
    let state = members.state.map(|sum| hex(&sum.sha256));
    for (name, sum) in [(META, Some(hex(&Sha256::digest(meta)))), (STATE, state)] {
        let (sum, listed) = (sum.ok_or_else(|| missing(name))?, listed.get(name).ok_or_else(|| missing(name))?);
        if *listed != sum {
            return Err(ArchiveError::Integrity(format!("hash check failed for {name:?}")));
        }
    }
    Ok(meta)
}

/// The sums in a list, by the name of the member.
fn listed(sums: &str) -> Result<BTreeMap<&str, &str>, ArchiveError> {
    let mut listed = BTreeMap::new();
    for (line, number) in sums.lines().zip(1..) {
        let Some((sum, name)) = line.split_once("  ") else {
            return Err(ArchiveError::Integrity(format!("line {number} of {SUMS:?} has no hash and name")));
        };
        if ![META, STATE].contains(&name) {
            let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
            return Err(ArchiveError::Integrity(format!("list missing hash for {shown:?}")));
        }
        if listed.insert(name, sum).is_some() {
            return Err(ArchiveError::Integrity(format!("more than one hash for {name:?}")));
        }
    }
    Ok(listed)
}

/// Copies a member and returns its sum.
fn pour(mut from: impl Read, to: impl Write) -> Result<Sum, ArchiveError> {
    let mut to = Summed::new(to);
    let mut block = vec![0; 256 * 1024];
    loop {
        match from.read(&mut block) {
            Ok(0) => break,
            Ok(read) => to.write_all(&block[..read]).map_err(ArchiveError::Keep)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(content(error)),
        }
    }
    let (mut to, sum) = to.finish();
    to.flush().map_err(ArchiveError::Keep)?;
    Ok(sum)
}

/// The value of the `Digest` header of an archive with this SHA-256.
pub fn digest_header(sha256: &[u8; 32]) -> String {
    format!("sha-256={}", STANDARD.encode(sha256))
}

/// The error of a content that cannot be read. A stream that ends too early has Go's text: clients show it.
fn content(error: io::Error) -> ArchiveError {
    ArchiveError::Content(match error.kind() {
        io::ErrorKind::UnexpectedEof => "unexpected EOF".into(),
        _ => error.to_string(),
    })
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
                "failed to read snapshot file: failed checking integrity of snapshot: file missing for \"meta.json\"",
            ),
        ] {
            assert_eq!(read_all(&bytes).expect_err("is no archive").to_string(), text);
        }
    }

    /// The members of a sound archive: description, state, list.
    fn sound(state: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        let description = serde_json::to_vec(&Meta { size: state.len() as u64, ..meta() }).expect("encodes");
        let sums = sums_of(&description, state);
        [(META, description), (STATE, state.to_vec()), (SUMS, sums)]
    }

    fn sums_of(meta: &[u8], state: &[u8]) -> Vec<u8> {
        format!("{}  {META}\n{}  {STATE}\n", hex(&Sha256::digest(meta)), hex(&Sha256::digest(state))).into_bytes()
    }

    /// The tar of these members without the zero blocks at its end.
    fn unended(members: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, bytes) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, name, &bytes[..]).expect("packs");
        }
        let mut bytes = tar.into_inner().expect("packs");
        bytes.truncate(bytes.len() - 2 * BLOCK_BYTES);
        bytes
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(1));
        gzip.write_all(bytes).expect("packs");
        gzip.finish().expect("packs")
    }

    #[test]
    fn bytes_after_the_end_of_an_archive_are_refused() {
        let tar = unended(&sound(b"the state"));
        let with = |zeros: usize| [&tar[..], &vec![0; zeros][..]].concat();
        let good = gzipped(&with(2 * BLOCK_BYTES));
        assert!(read_all(&good).is_ok());
        let end = "failed to read snapshot file: failed to read or write snapshot data: ";
        for (bytes, text) in [
            // A tar as other tools write it: padded to 10240 bytes.
            (gzipped(&with(10_240 - tar.len())), format!("{} unread uncompressed bytes remain", 9216 - tar.len())),
            (gzipped(&[&with(1024)[..], b"x"].concat()), "1 unread uncompressed bytes remain".into()),
            ([&good[..], &gzipped(b"more")[..]].concat(), "4 unread uncompressed bytes remain".into()),
            ([&good[..], b"0123456789garbage"].concat(), format!("{end}invalid gzip header")),
            (gzipped(&with(BLOCK_BYTES)), format!("{end}unexpected EOF")),
            (gzipped(&tar), format!("{end}unexpected EOF")),
        ] {
            assert_eq!(read_all(&bytes).expect_err("is refused").to_string(), text);
        }
    }

    #[test]
    fn archive_whose_list_or_description_does_not_fit_is_refused() {
        let [meta_file, state_file, sums_file] = sound(b"the state");
        let refused = |meta: &[u8], sums: Vec<u8>| {
            let members = [(META, meta.to_vec()), state_file.clone(), (SUMS, sums)];
            read_all(&gzipped(&[&unended(&members)[..], &[0_u8; 1024][..]].concat()))
                .expect_err("is refused")
                .to_string()
        };
        let integrity =
            |text: &str| format!("failed to read snapshot file: failed checking integrity of snapshot: {text}");
        let sums = String::from_utf8(sums_file.1).expect("is text");
        for (added, text) in [
            ("00  more\n", "list missing hash for \"more\""),
            ("\n", "line 3 of \"SHA256SUMS\" has no hash and name"),
            ("00  state.bin\n", "more than one hash for \"state.bin\""),
        ] {
            assert_eq!(refused(&meta_file.1, format!("{sums}{added}").into_bytes()), integrity(text));
        }
        let first = sums.lines().next().expect("a line");
        assert_eq!(refused(&meta_file.1, first.into()), integrity("file missing for \"state.bin\""));
        let described = |meta: Meta| {
            let description = serde_json::to_vec(&meta).expect("encodes");
            refused(&description, sums_of(&description, &state_file.1))
        };
        let newer = described(Meta { version: 9, size: 9, ..meta() });
        assert_eq!(newer, "failed to read snapshot file: unsupported snapshot version 9");
        let longer = described(Meta { size: 10, ..meta() });
        assert_eq!(longer, integrity("\"state.bin\" has 9 bytes, \"meta.json\" names 10"));
    }
}
