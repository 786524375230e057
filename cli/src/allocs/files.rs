//! `alloc fs`: directories and files of an allocation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::find::{by_id, of_job};
use super::tail::{self, Cut, LINES, last_lines};
use crate::client::{Client, RequestError, text, with_query};
use crate::exit::{Exit, Failure, Outcome};
use crate::jobs::lists::items;
use crate::layout::list;
use crate::{Context, General, out, outln, values};

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
        self.print(&File { client: &client, alloc: id, path }).await
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

    async fn print(&self, file: &File<'_>) -> Outcome {
        let tails = self.tail || self.lines.is_some() || self.bytes.is_some();
        if !tails && !self.follow {
            let mut response = file.whole().await?;
            tail::print(&mut response, false, <[u8]>::to_vec).await.map_err(Failure::new)?;
            return Ok(Exit::DONE);
        }
        if !tails || self.bytes.is_some() {
            let mut response = file.stream(self.bytes, self.follow).await?;
            tail::print(&mut response, self.follow, decoder()).await.map_err(Failure::new)?;
            return Ok(Exit::DONE);
        }
        file.tail(self.lines.filter(|lines| *lines >= 0).unwrap_or(LINES), self.follow).await
    }
}

/// One file of an allocation.
struct File<'a> {
    client: &'a Client,
    alloc: &'a str,
    path: &'a str,
}

impl File<'_> {
    async fn whole(&self) -> Result<reqwest::Response, Failure> {
        let path = with_query(&format!("/v1/client/fs/cat/{}", self.alloc), &[("path", self.path)]);
        self.client.open(&path).await.map_err(bare)
    }

    /// Frames from so many bytes before the end on; without a number from the start.
    async fn stream(&self, end: Option<i64>, follow: bool) -> Result<reqwest::Response, Failure> {
        let origin = if end.is_some() { "end" } else { "start" };
        let follow = if follow { "true" } else { "false" };
        let path = with_query(
            &format!("/v1/client/fs/stream/{}", self.alloc),
            &[("path", self.path), ("origin", origin), ("offset", &end.unwrap_or(0).to_string()), ("follow", follow)],
        );
        self.client.open(&path).await.map_err(bare)
    }

    /// The last lines, then what follows.
    async fn tail(&self, lines: i64, follow: bool) -> Outcome {
        let found = tail::read(lines, async |end| {
            let mut response = self.stream(Some(end), false).await?;
            tail::whole(&mut response, decoder()).await.map_err(Failure::new)
        })
        .await?;
        if !follow {
            out::bytes(last_lines(&found.bytes, lines));
            return Ok(Exit::DONE);
        }
        let mut response = self.stream(Some(found.asked), true).await?;
        let cut = Cut::new(lines, found.bytes.len());
        tail::follow(&mut response, cut, decoder()).await.map_err(Failure::new)?;
        Ok(Exit::DONE)
    }
}

/// Decodes a stream of frames piece by piece: a frame may lie in two pieces.
fn decoder() -> impl FnMut(&[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    move |piece: &[u8]| {
        rest.extend_from_slice(piece);
        frames(&mut rest)
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
