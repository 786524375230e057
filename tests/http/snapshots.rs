//! A snapshot saved on one agent and restored on an empty one; a file that is no valid archive is refused and changes
//! nothing.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::http::{Answer, Request};
use crate::story::{Story, texts};

#[test]
fn a_snapshot_restores_on_an_empty_agent() -> Result<()> {
    let old = Story::begin()?;
    for name in ["one", "two"] {
        old.put("/v1/namespace", &json!({"Name": name, "Description": "saved"}))?;
    }
    old.put("/v1/node/pools", &json!({"Name": "gpu"}))?;
    let saved = old.call(&Request::new("GET", "/v1/operator/snapshot"))?;

    let new = Story::begin()?;
    new.put("/v1/namespace", &json!({"Name": "forgotten"}))?;
    let before = new.call(&Request::new("GET", "/v1/namespaces"))?;
    let mut restore = Request::new("PUT", "/v1/operator/snapshot");
    restore.body = Some(saved.body);
    new.call(&restore)?;

    let after = new.call(&Request::new("GET", "/v1/namespaces"))?;
    let (old_list, new_list) = (old.get("/v1/namespaces")?, after.json()?);
    ensure!(texts(&new_list, "Name") == texts(&old_list, "Name"), "{new_list}");
    ensure!(texts(&new.get("/v1/node/pools")?, "Name").contains(&"gpu"));
    let index = |answer: &Answer| answer.index().context("a list tells its index");
    let written = new.call(&Request::new("PUT", "/v1/namespace").json(&json!({"Name": "after"})))?;
    ensure!(index(&written)? > index(&before)?, "the index went back at the restore");
    Ok(())
}

/// An archive in the right container, with right sums, around these members.
fn packed(members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let sums: String = members
        .iter()
        .map(|(name, bytes)| {
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "  " + name + "\n"
        })
        .collect();
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in members.iter().copied().chain([("SHA256SUMS", sums.as_bytes())]) {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        tar.append_data(&mut header, name, bytes)?;
    }
    let mut gzip = tar.into_inner()?;
    gzip.flush()?;
    Ok(gzip.finish()?)
}

#[test]
fn dry_run_restore_verifies_an_archive_and_a_bad_archive_changes_nothing() -> Result<()> {
    let old = Story::begin()?;
    old.put("/v1/namespace", &json!({"Name": "one"}))?;
    let archive = old.call(&Request::new("GET", "/v1/operator/snapshot"))?.body;
    let index = old.call(&Request::new("GET", "/v1/namespaces"))?.index().context("a list tells its index")?;

    let new = Story::begin()?;
    new.put("/v1/namespace", &json!({"Name": "kept"}))?;
    let before = new.call(&Request::new("GET", "/v1/namespaces"))?;
    let send = |path: &str, body: Vec<u8>| {
        let mut request = Request::new("PUT", path);
        request.body = Some(body);
        new.ask(&request)
    };

    let report = send("/v1/operator/snapshot?dry_run=true", archive.clone())?.json()?;
    ensure!(report["DryRun"] == true && report["Index"].as_u64() >= Some(index), "{report}");
    let rows = |name: &str| {
        report["Tables"]
            .as_array()
            .and_then(|tables| tables.iter().find(|table| table["Name"] == name)?["Rows"].as_u64())
    };
    ensure!(rows("namespaces") == Some(2), "{report}");

    let meta = |size: usize| {
        let configuration = json!({"Servers": []});
        let meta = json!({"Version": 1, "ID": "2-7-5", "Index": 7, "Term": 2, "Peers": "",
            "Configuration": configuration, "ConfigurationIndex": 1, "Size": size});
        meta.to_string().into_bytes()
    };
    let mut cut = archive.clone();
    cut.truncate(archive.len() / 2);
    let mut flipped = archive.clone();
    flipped[archive.len() / 2] ^= 4;
    let refused = [
        (cut, "failed to read snapshot file: failed to read or write snapshot data: unexpected EOF"),
        (flipped, "failed to read snapshot file: "),
        (packed(&[("meta.json", &meta(2)), ("state.bin", b"so")])?, "failed to read snapshot: reading the checkpoint"),
        (
            // An archive of Nomad begins with an empty map and a record of type 5.
            packed(&[("meta.json", &meta(2)), ("state.bin", b"\x80\x05")])?,
            "failed to read snapshot: record 1 (type 5 at byte 1) is cut off",
        ),
        (
            packed(&[("meta.json", &meta(64)), ("state.bin", &[0x80; 64])])?,
            "failed to read snapshot: this is not a state that Songline wrote",
        ),
        (
            packed(&[("meta.json", &meta(0)), ("state.bin", b""), ("more", b"")])?,
            "failed to read snapshot file: unexpected file \"more\" in snapshot",
        ),
        (
            packed(&[("meta.json", &meta(1)), ("state.bin", b"so")])?,
            "failed to read snapshot file: failed checking integrity of snapshot: \"state.bin\" has 2 bytes",
        ),
        ([&archive[..], b"more"].concat(), "failed to read snapshot file: failed to read or write snapshot data: "),
    ];
    for (body, reason) in refused {
        for path in ["/v1/operator/snapshot", "/v1/operator/snapshot?dry_run=true"] {
            let answer = send(path, body.clone())?;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            ensure!(
                answer.head.status == 500 && text.starts_with(&format!("failed to restore from snapshot: {reason}")),
                "{path}: {text}"
            );
            ensure!(text.lines().count() == 1, "{text}");
        }
    }
    let after = new.call(&Request::new("GET", "/v1/namespaces"))?;
    ensure!(after.index() == before.index() && after.json()? == before.json()?, "a refused archive changed the state");
    Ok(())
}
