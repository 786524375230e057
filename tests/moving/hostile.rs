//! Archives that are cut off, altered or of another version are refused with a reason, and change nothing.

use std::io::{Read as _, Write as _};

use anyhow::{Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::http::Request;
use crate::importing::{Importer, archive};

/// The members of an archive.
struct Members {
    meta: Vec<u8>,
    state: Vec<u8>,
}

impl Members {
    fn of(archive: &[u8]) -> Result<Self> {
        let (mut meta, mut state) = (Vec::new(), Vec::new());
        for entry in tar::Archive::new(GzDecoder::new(archive)).entries()? {
            let mut entry = entry?;
            let to = match entry.path()?.to_string_lossy().as_ref() {
                "meta.json" => &mut meta,
                "state.bin" => &mut state,
                _ => continue,
            };
            entry.read_to_end(to)?;
        }
        Ok(Self { meta, state })
    }

    /// An archive with right sums and the right size around this state.
    fn around(&self, state: &[u8]) -> Result<Vec<u8>> {
        let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut meta: serde_json::Value = serde_json::from_slice(&self.meta)?;
        meta["Size"] = state.len().into();
        let meta = serde_json::to_vec(&meta)?;
        let sums = format!("{}  meta.json\n{}  state.bin\n", hex(&meta), hex(state));
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, bytes) in [("meta.json", &meta[..]), ("state.bin", state), ("SHA256SUMS", sums.as_bytes())] {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            tar.append_data(&mut header, name, bytes)?;
        }
        let mut gzip = tar.into_inner()?;
        gzip.flush()?;
        Ok(gzip.finish()?)
    }
}

/// A small generator of numbers, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap_or_default()
    }
}

fn refused(server: &Importer, body: Vec<u8>, reason: &str) -> Result<()> {
    for query in ["?dry_run=true", ""] {
        let answer = server.send(query, body.clone())?;
        let text = answer.text();
        ensure!(answer.head.status == 500 && text.contains(reason), "{}: {text:?}, not {reason:?}", answer.head.status);
        ensure!(text.lines().count() == 1, "{text}");
    }
    Ok(())
}

#[test]
fn damaged_archives_are_refused_with_a_reason_and_change_nothing() -> Result<()> {
    let server = Importer::begin(false, None)?;
    server.call(Request::new("PUT", "/v1/namespace").json(&serde_json::json!({"Name": "kept"})))?;
    let state_now = || -> Result<_> {
        let answer = server.call(Request::new("GET", "/v1/namespaces"))?;
        Ok((answer.index(), answer.json()?))
    };
    let before = state_now()?;

    let whole = archive("small")?;
    let members = Members::of(&whole)?;
    let state = &members.state;
    refused(&server, whole[..whole.len() / 2].to_vec(), "unexpected EOF")?;
    refused(&server, members.around(&state[..state.len() - 1])?, "is cut off")?;
    let added = |bytes: &[u8]| members.around(&[state, bytes].concat());
    refused(&server, added(&[20, 0x80])?, "has type 20, which is unknown")?;
    refused(&server, added(&[99, 0x80])?, "has type 99, which is unknown")?;
    refused(&server, added(&[3, 0x81, 0xa2, b'I', b'D', 0x07])?, "(evaluation, type 3 at byte")?;
    refused(&server, added(&[3, 0xc1])?, "cannot be read")?;
    refused(&server, added(&[3, 0xdf, 0xff, 0xff, 0xff, 0xff])?, "cannot be read")?;
    refused(&server, added(&[0x91; 300])?, "")?;
    ensure!(state_now()? == before, "a refused archive changed the state");
    Ok(())
}

#[test]
fn flipped_bits_never_stop_the_server() -> Result<()> {
    let server = Importer::begin(false, None)?;
    let members = Members::of(&archive("small")?)?;
    let seed = 0x5eed_1234_5678_9abc;
    println!("seed {seed:#x}");
    let mut numbers = Numbers(seed);
    let mut accepted = 0;
    for _ in 0..200 {
        let mut state = members.state.clone();
        let at = numbers.below(state.len());
        state[at] ^= 1 << numbers.below(8);
        let cut = if numbers.below(4) == 0 { numbers.below(state.len()) } else { state.len() };
        let answer = server.send("?dry_run=true", members.around(&state[..cut])?)?;
        // Some bits are letters of a name: such a state is as good as another one.
        accepted += usize::from(answer.head.status == 200);
        ensure!([200, 500].contains(&answer.head.status), "{} {}", answer.head.status, answer.text());
    }
    println!("{accepted} of 200 altered archives are valid");
    server.call(Request::new("GET", "/v1/namespaces"))?;
    Ok(())
}

#[test]
fn unknown_records_are_left_out_on_demand_and_listed() -> Result<()> {
    let server = Importer::begin(false, None)?;
    let members = Members::of(&archive("small")?)?;
    let body = members.around(&[&members.state[..], &[99, 0x80]].concat())?;
    let report = server.send("?dry_run=true&skip_unknown=true", body)?.json()?;
    let left: Vec<_> =
        report["NotCarried"].as_array().into_iter().flatten().filter_map(|item| item["What"].as_str()).collect();
    for what in ["job sources", "autopilot configuration", "one-time tokens", "records of type 99"] {
        ensure!(left.contains(&what), "{what} is not among {left:?}");
    }
    ensure!(left.iter().any(|what| what.starts_with("items of variables of root key ")), "{left:?}");
    Ok(())
}

#[test]
fn variables_without_their_key_file_are_listed_and_new_ones_can_be_written() -> Result<()> {
    let server = Importer::begin(false, None)?;
    let answer = server.send("", archive("small")?)?;
    ensure!(answer.head.status == 200, "{}", answer.text());
    let read = server.ask(Request::new("GET", "/v1/var/app/conf?namespace=team"))?;
    let other = server.ask(Request::new("GET", "/v1/var/app/conf"))?;
    let text = if read.head.status == 404 { other.text() } else { read.text() };
    ensure!(text.contains("no such key"), "{text}");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let write = serde_json::json!({"Namespace": "default", "Path": "new", "Items": {"a": "b"}});
        let answer = server.ask(Request::new("PUT", "/v1/var/new").json(&write))?;
        if answer.head.status == 200 {
            return Ok(());
        }
        ensure!(std::time::Instant::now() < deadline, "{}", answer.text());
        // The leader makes a key: its first change of the table is what the query waits for.
        server.ask(Request::new("GET", "/v1/operator/keyring/keys?index=1000000&wait=200ms"))?;
    }
}
