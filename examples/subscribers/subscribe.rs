//! Follows the event stream into a file of JSON lines and resumes exactly where the file ends.
//!
//! Usage: `cargo run --example subscribe -- ADDRESS FILE [QUERY]`
//!
//! Every line of the file is a frame or a mark of the stream; its index is the cursor of the next request. So a line
//! and the position after it are written by the same write, and a crash can neither lose nor repeat an event.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The server sends a heartbeat every 30 seconds: a connection without one for so long is dead.
const SILENCE: Duration = Duration::from_secs(90);
/// Wait before the stream is opened again.
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// The index to resume after; `None` for a heartbeat.
fn cursor(frame: &Value) -> Option<u64> {
    match frame["Gap"]["Oldest"].as_u64() {
        Some(oldest) => Some(oldest - 1),
        None => frame["Index"].as_u64(),
    }
}

/// The cursor of the last whole line; 0 for an empty file. A line that a crash has cut short is removed.
fn last_cursor(file: &mut File) -> Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let (mut position, mut end, mut line) = (0, 0, Vec::new());
    let mut lines = BufReader::new(&*file);
    while lines.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        position = cursor(&serde_json::from_slice(&line)?).unwrap_or(position);
        end += line.len() as u64;
        line.clear();
    }
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    Ok(position)
}

/// Appends the stream to the file until it ends.
async fn follow(client: &reqwest::Client, address: &str, query: &str, file: &mut File) -> Result<()> {
    let after = last_cursor(file)?;
    let mut request = client.get(format!("{address}/v1/event/stream?after_index={after}&{query}"));
    if let Ok(token) = std::env::var("NOMAD_TOKEN") {
        request = request.header("X-Nomad-Token", token);
    }
    let mut stream = request.send().await?;
    ensure!(stream.status().is_success(), "{}: {}", stream.status(), stream.text().await?);
    let mut rest = Vec::new();
    while let Some(piece) = stream.chunk().await? {
        rest.extend_from_slice(&piece);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let frame: Value = serde_json::from_slice(&line)?;
            if let Some(oldest) = frame["Gap"]["Oldest"].as_u64() {
                eprintln!("entries before {oldest} are missing: read the state again");
            }
            if let Some(why) = frame["Closed"].as_str() {
                bail!("the server ended the stream: {why}");
            }
            if cursor(&frame).is_some() {
                file.write_all(&line)?;
            }
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, path, more @ ..] = &words[..] else { bail!("usage: subscribe ADDRESS FILE [QUERY]") };
    let query = more.first().map_or("", String::as_str);
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).context("the file")?;
    let client = songline_client::tls::http_client().read_timeout(SILENCE).build()?;
    loop {
        if let Err(error) = follow(&client, address, query, &mut file).await {
            eprintln!("{error:#}");
        }
        tokio::time::sleep(RETRY_WAIT).await;
    }
}
