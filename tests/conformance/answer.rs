//! Decoding an answer's body: decompressed, as JSON or text, as concatenated objects, or as a snapshot archive. Not
//! here: receiving the bytes, and judging them.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::{DeflateDecoder, GzDecoder};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::http::Head;
use crate::text::dump;

/// The body of an answer in the form in which it is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Json(Value),
    Text(String),
}

impl Content {
    /// Decodes JSON; other content stays text.
    pub fn decode(bytes: &[u8]) -> Content {
        if bytes.is_empty() {
            return Content::Text(String::new());
        }
        match serde_json::from_slice(bytes) {
            Ok(value) => Content::Json(value),
            Err(_) => Content::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    /// The content for a comparison with a recorded body.
    pub fn as_value(&self) -> Value {
        match self {
            Content::Json(value) => value.clone(),
            Content::Text(text) => Value::String(text.clone()),
        }
    }

    /// The content for a comparison with a recorded text.
    pub fn as_text(&self) -> String {
        match self {
            Content::Json(value) => dump(value),
            Content::Text(text) => text.clone(),
        }
    }
}

/// Decompresses a body as its headers say.
pub fn unpack(head: &Head, bytes: Vec<u8>) -> Result<Vec<u8>> {
    if bytes.is_empty() {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    match head.header("Content-Encoding") {
        Some("gzip") => GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).context("unpacking gzip")?,
        Some("deflate") => {
            DeflateDecoder::new(bytes.as_slice()).read_to_end(&mut plain).context("unpacking deflate")?
        }
        _ => return Ok(bytes),
    };
    Ok(plain)
}

/// The concatenated objects of a text, without empty ones; ends at the first incomplete one.
pub fn frames(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    values.map_while(Result::ok).filter(|value| *value != Value::Object(Map::new())).collect()
}

/// Total number of bytes in the `Data` of such objects.
pub fn data_bytes(frames: &[Value]) -> Result<usize> {
    let mut total = 0;
    for frame in frames {
        let data = frame.get("Data").and_then(Value::as_str);
        let data = STANDARD.decode(data.unwrap_or_default());
        total += data.context("the Data of a frame")?.len();
    }
    Ok(total)
}

/// Content of a snapshot archive, and whether its two kinds of checksums agree.
pub fn archive(head: &Head, bytes: &[u8]) -> Result<Value> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut members = Vec::new();
    let mut tar = tar::Archive::new(GzDecoder::new(bytes));
    for entry in tar.entries().context("opening the archive")? {
        let mut entry = entry.context("the next member of the archive")?;
        let name = entry.path()?.display().to_string();
        let header = entry.header();
        let (mode, is_file) = (header.mode()?, header.entry_type().is_file());
        members.push(json!([name, format!("0o{mode:o}"), is_file]));
        let mut content = Vec::new();
        entry.read_to_end(&mut content).with_context(|| format!("member {name}"))?;
        files.insert(name, content);
    }
    let mut sums = Map::new();
    let listed = files.get("SHA256SUMS").cloned().unwrap_or_default();
    for line in String::from_utf8_lossy(&listed).lines() {
        let (sum, name) = line.split_once("  ").context("a line of SHA256SUMS")?;
        let content = files.get(name).with_context(|| format!("member {name} of SHA256SUMS"))?;
        sums.insert(name.to_string(), json!(hex(&Sha256::digest(content)) == sum));
    }
    let digest = format!("sha-256={}", STANDARD.encode(Sha256::digest(bytes)));
    let meta = files.get("meta.json").context("there is no meta.json")?;
    let meta: Value = serde_json::from_slice(meta).context("meta.json")?;
    Ok(json!({
        "members": members,
        "meta": meta,
        "digest_agrees": head.header("Digest") == Some(digest.as_str()),
        "sums": sums,
    }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
