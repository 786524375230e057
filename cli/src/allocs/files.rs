//! `alloc fs`: directories and files of an allocation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::find::{by_id, of_job};
use crate::client::{Client, RequestError, text, with_query};
use crate::exit::{Exit, Failure, Outcome};
use crate::jobs::lists::items;
use crate::layout::list;
use crate::{Context, General, out, outln, values};

/// Number of lines of `-tail` without a number.
const LINES: i64 = 10;
/// Estimated length of a line, for the place where the tail is looked for.
const LINE_BYTES: i64 = 120;

/// Arguments of `alloc fs`.
#[derive(Args)]
pub(crate) struct Fs {
    #[command(flatten)]
    general: General,
    /// Print sizes in bytes.
    #[arg(long = "H")]
    machine: bool,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// The argument is a job, one of whose allocations is taken.
    #[arg(long)]
    job: bool,
    /// Describe the file instead of printing it.
    #[arg(long)]
    stat: bool,
    /// Go on as the file grows.
    #[arg(long = "f")]
    follow: bool,
    /// Print the end only.
    #[arg(long)]
    tail: bool,
    /// Number of lines of the end.
    #[arg(long = "n")]
    lines: Option<i64>,
    /// Number of bytes of the end.
    #[arg(long = "c")]
    bytes: Option<i64>,
    /// Id of the allocation, or its beginning; with `-job` that of the job.
    id: String,
    /// Path below the allocation's directory.
    path: Option<String>,
}

/// The words of the agent alone, as the reference prints them.
fn bare(error: RequestError) -> Failure {
    Failure::new(error.to_string())
}

impl crate::Run for Fs {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let alloc = if self.job { of_job(&client, &self.id).await? } else { by_id(&client, &self.id).await? };
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let id = text(&alloc["ID"]);
        let path = self.path.as_deref().unwrap_or("/");
        let route = |verb: &str| with_query(&format!("/v1/client/fs/{verb}/{id}"), &[("path", path)]);
        let stat = client.get(&route("stat")).await.map_err(bare)?;
        if self.stat {
            let headings = ["Mode", "Size", "Modified Time", "Content Type", "Name"];
            let mut cells = self.cells(&stat);
            cells.insert(3, text(&stat["ContentType"]).to_owned());
            outln!("{}", list(&headings, &[cells]));
            return Ok(Exit::DONE);
        }
        if stat["IsDir"] == true {
            let found = client.get(&route("ls")).await.map_err(bare)?;
            let rows: Vec<_> = items(&found).iter().map(|file| self.cells(file)).collect();
            outln!("{}", list(&["Mode", "Size", "Modified Time", "Name"], &rows));
            return Ok(Exit::DONE);
        }
        self.print(&client, id, path).await
    }
}

impl Fs {
    fn cells(&self, file: &Value) -> Vec<String> {
        let size = file["Size"].as_u64().unwrap_or(0);
        let size = if self.machine { size.to_string() } else { values::size(size) };
        let name = text(&file["Name"]);
        let name = if file["IsDir"] == true { format!("{name}/") } else { name.to_owned() };
        vec![text(&file["FileMode"]).to_owned(), size, values::time_of(text(&file["ModTime"])), name]
    }

    async fn print(&self, client: &Client, id: &str, path: &str) -> Outcome {
        let tails = self.tail || self.lines.is_some() || self.bytes.is_some();
        if !tails && !self.follow {
            let whole = with_query(&format!("/v1/client/fs/cat/{id}"), &[("path", path)]);
            let mut response = client.open(&whole).await.map_err(bare)?;
            while let Some(piece) = response.chunk().await.map_err(|error| Failure::new(error.to_string()))? {
                out::bytes(&piece);
            }
            return Ok(Exit::DONE);
        }
        let lines = self.lines.unwrap_or(LINES);
        let end = self.bytes.unwrap_or_else(|| lines.saturating_mul(LINE_BYTES));
        let (origin, offset) = if tails { ("end", end) } else { ("start", 0) };
        let follow = if self.follow { "true" } else { "false" };
        let stream = with_query(
            &format!("/v1/client/fs/stream/{id}"),
            &[("path", path), ("origin", origin), ("offset", &offset.to_string()), ("follow", follow)],
        );
        let mut response = client.open(&stream).await.map_err(bare)?;
        let (mut content, mut rest) = (Vec::new(), Vec::new());
        let cut = tails && self.bytes.is_none() && !self.follow;
        loop {
            tokio::select! {
                piece = response.chunk() => match piece.map_err(|error| Failure::new(error.to_string()))? {
                    Some(piece) => {
                        rest.extend_from_slice(&piece);
                        let data = frames(&mut rest);
                        if cut { content.extend_from_slice(&data) } else { out::bytes(&data) }
                    }
                    None => break,
                },
                _ = tokio::signal::ctrl_c() => break,
            }
        }
        let text = String::from_utf8_lossy(&content);
        let all: Vec<&str> = text.split_inclusive('\n').collect();
        let skipped = all.len().saturating_sub(usize::try_from(lines).unwrap_or(usize::MAX));
        out::bytes(all[skipped..].concat().as_bytes());
        Ok(Exit::DONE)
    }
}

/// The data of the whole frames at the beginning of a stream, which are taken out of it.
fn frames(stream: &mut Vec<u8>) -> Vec<u8> {
    let mut data = Vec::new();
    let mut frames = serde_json::Deserializer::from_slice(stream).into_iter::<Value>();
    let mut used = 0;
    while let Some(Ok(frame)) = frames.next() {
        used = frames.byte_offset();
        // A frame without data is a heartbeat.
        data.extend(STANDARD.decode(text(&frame["Data"])).unwrap_or_default());
    }
    stream.drain(..used);
    data
}

#[cfg(test)]
mod tests {
    use super::frames;

    #[test]
    fn whole_frames_are_decoded_and_a_part_of_one_waits() {
        let mut stream = br#"{"Data":"aGU="}{}{"Data":"bGxv"}{"Dat"#.to_vec();
        assert_eq!(frames(&mut stream), b"hello");
        assert_eq!(stream, b"{\"Dat");
    }
}
