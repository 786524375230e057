//! Snapshot archives: one self-contained, verified file that holds a whole state.
//!
//! The container is the reference's: a gzip-compressed tar of exactly `meta.json`, `state.bin` and `SHA256SUMS`. The content of
//! `state.bin` is a checkpoint of ours, which carries its own digests. What the state means is not known here.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const META: &str = "meta.json";
const STATE: &str = "state.bin";
const SUMS: &str = "SHA256SUMS";

/// The largest member that is read: a bound for archives that claim nonsense.
const MEMBER_BYTES_MAX: u64 = 64 << 30;

/// What an archive says about itself, in the reference's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Meta {
    /// 1.
    pub version: u32,
    /// `term-index-unix milliseconds`.
    #[serde(rename = "ID")]
    pub id: String,
    /// Index of the last entry that the state has.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Base64 of the msgpack list of the servers' addresses.
    pub peers: String,
    /// Who was in the cluster.
    pub configuration: Configuration,
    /// Index of the entry that set it.
    pub configuration_index: u64,
    /// Bytes of `state.bin`.
    pub size: u64,
}

/// The members of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Configuration {
    /// One a server.
    pub servers: Vec<Member>,
}

/// One server of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Member {
    /// 0 votes.
    pub suffrage: u32,
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its address.
    pub address: String,
}

/// Why bytes are not an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Not gzip, or cut short.
    #[error("failed to decompress snapshot: {0}")]
    Compression(String),
    /// The tar inside is damaged.
    #[error("failed to read snapshot archive: {0}")]
    Container(#[source] io::Error),
    /// A member that does not belong there.
    #[error("failed to read snapshot: unexpected file {0:?} in snapshot")]
    Unexpected(String),
    /// A member is not there.
    #[error("failed to read snapshot: {0} is missing")]
    Missing(&'static str),
    /// A member is not what was written.
    #[error("failed to read snapshot: checksum of {0} does not match")]
    Checksum(String),
    /// `meta.json` is none.
    #[error("failed to read snapshot: meta.json: {0}")]
    Meta(#[from] serde_json::Error),
}

/// Writes an archive. `state` is what goes into `state.bin`; `meta` its description without the size.
pub fn write(mut meta: Meta, state: &[u8], unix_secs: u64, out: impl Write) -> io::Result<()> {
    meta.size = state.len() as u64;
    let mut description = serde_json::to_vec(&meta)?;
    description.push(b'\n');
    let mut sums = String::new();
    for (name, bytes) in [(META, &description[..]), (STATE, state)] {
        // Writing to a String does not fail.
        let _ = writeln!(sums, "{}  {name}", hex(&Sha256::digest(bytes)));
    }
    let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::new(1)));
    for (name, bytes) in [(META, &description[..]), (STATE, state), (SUMS, sums.as_bytes())] {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(unix_secs);
        header.set_entry_type(tar::EntryType::Regular);
        tar.append_data(&mut header, name, bytes)?;
    }
    tar.into_inner()?.finish()?.flush()
}

/// Reads and verifies an archive: its description and its state.
pub fn read(bytes: &[u8]) -> Result<(Meta, Vec<u8>), ArchiveError> {
    if bytes.is_empty() {
        return Err(ArchiveError::Compression("EOF".into()));
    }
    let mut plain = Vec::new();
    let mut gzip = GzDecoder::new(bytes);
    gzip.by_ref().take(MEMBER_BYTES_MAX).read_to_end(&mut plain).map_err(|error| ArchiveError::Compression(gzip_text(bytes, &error)))?;
    let (mut meta, mut state, mut sums) = (None, None, None);
    let mut tar = tar::Archive::new(&plain[..]);
    for entry in tar.entries().map_err(ArchiveError::Container)? {
        let mut entry = entry.map_err(ArchiveError::Container)?;
        let name = entry.path().map_err(ArchiveError::Container)?.to_string_lossy().into_owned();
        let slot = match name.as_str() {
            META => &mut meta,
            STATE => &mut state,
            SUMS => &mut sums,
            _ => return Err(ArchiveError::Unexpected(name)),
        };
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(ArchiveError::Container)?;
        *slot = Some(content);
    }
    let meta = meta.ok_or(ArchiveError::Missing(META))?;
    let state = state.ok_or(ArchiveError::Missing(STATE))?;
    let sums = sums.ok_or(ArchiveError::Missing(SUMS))?;
    let sums = String::from_utf8_lossy(&sums);
    for (name, bytes) in [(META, &meta), (STATE, &state)] {
        let sum = hex(&Sha256::digest(bytes));
        if !sums.lines().any(|line| line.split_once("  ") == Some((sum.as_str(), name))) {
            return Err(ArchiveError::Checksum(name.to_owned()));
        }
    }
    Ok((serde_json::from_slice(&meta)?, state))
}

/// The value of the `Digest` header of an archive.
pub fn digest_header(archive: &[u8]) -> String {
    format!("sha-256={}", STANDARD.encode(Sha256::digest(archive)))
}

/// Go's texts for what is wrong with a gzip stream: clients show them.
fn gzip_text(bytes: &[u8], error: &io::Error) -> String {
    // Go reads the ten bytes of the header before it looks at them.
    if bytes.len() < 10 {
        return "unexpected EOF".into();
    }
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return "gzip: invalid header".into();
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "unexpected EOF".into(),
        _ => error.to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let meta = Meta {
            version: 1,
            id: "1-7-5".into(),
            index: 7,
            term: 1,
            peers: String::new(),
            configuration: Configuration { servers: Vec::new() },
            configuration_index: 1,
            size: 0,
        };
        let mut out = Vec::new();
        write(meta, b"the state", 5, &mut out).expect("writes to memory");
        out
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let (meta, state) = read(&sample()).expect("reads");
        assert_eq!((meta.index, meta.size, &state[..]), (7, 9, &b"the state"[..]));
    }

    #[test]
    fn no_damaged_byte_passes_unseen() {
        let good = sample();
        let (meta, state) = read(&good).expect("reads");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            if let Ok(found) = read(&bad) {
                assert_eq!(found, (meta.clone(), state.clone()), "byte {at} changed what was read");
            }
        }
    }

    #[test]
    fn what_is_no_archive_says_so_as_clients_expect() {
        for (bytes, text) in [
            (&b""[..], "failed to decompress snapshot: EOF"),
            (&b"hello, world"[..], "failed to decompress snapshot: gzip: invalid header"),
            (&b"hello"[..], "failed to decompress snapshot: unexpected EOF"),
            (&sample()[..40], "failed to decompress snapshot: unexpected EOF"),
        ] {
            assert_eq!(read(bytes).expect_err("is no archive").to_string(), text);
        }
    }
}
