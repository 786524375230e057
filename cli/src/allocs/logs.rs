//! `alloc logs`: the output of a task.

use clap::Args;

use super::find::{by_id, of_job, only_task};
use super::tail::{self, Cut, LINES, last_lines};
use crate::client::{Client, because, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, General, out};

/// Arguments of `alloc logs`.
#[derive(Args)]
pub(crate) struct Logs {
    #[command(flatten)]
    general: General,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// The argument is a job, one of whose allocations is taken.
    #[arg(long)]
    job: bool,
    /// Go on as the task writes more.
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
    /// Standard error.
    #[arg(long)]
    stderr: bool,
    /// Standard output.
    #[arg(long)]
    stdout: bool,
    /// The task, where the allocation has several.
    #[arg(long = "task")]
    task_flag: Option<String>,
    /// Id of the allocation, or its beginning; with `-job` that of the job.
    id: String,
    /// The task, where the allocation has several.
    task: Option<String>,
}

impl crate::Run for Logs {
    async fn run(self, _: &Context) -> Outcome {
        if self.stderr && self.stdout {
            return Err(Failure::new("Unable to support both stdout and stderr"));
        }
        if self.lines.is_some() && self.bytes.is_some() {
            return Err(Failure::new("Unable to support both -n and -c"));
        }
        if !self.job && self.id.chars().count() < 2 {
            return Err(Failure::new("Alloc ID must contain at least two characters."));
        }
        let client = self.general.client()?;
        let alloc = if self.job { of_job(&client, &self.id).await? } else { by_id(&client, &self.id).await? };
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let task = match self.task_flag.clone().or_else(|| self.task.clone()).filter(|task| !task.is_empty()) {
            Some(task) => task,
            None => only_task(&alloc).map_err(|failure| Failure::of("Failed to validate task", failure.message()))?,
        };
        let plain = !self.stderr && !self.stdout && !self.tail && self.lines.is_none() && self.bytes.is_none();
        let stream = |kind| Stream { client: &client, alloc: text(&alloc["ID"]), task: &task, kind };
        if self.follow && plain {
            return follow_both(&stream("stdout"), &stream("stderr")).await;
        }
        self.one(&stream(if self.stderr { "stderr" } else { "stdout" })).await
    }
}

/// One output of a task.
struct Stream<'a> {
    client: &'a Client,
    alloc: &'a str,
    task: &'a str,
    kind: &'static str,
}

impl Stream<'_> {
    /// The beginning of an error.
    fn tried(&self) -> String {
        format!("Failed to read {} file: error reading file", self.kind)
    }

    /// The bytes from `end` before the end on; from the start if that is negative.
    async fn open(&self, end: i64, follow: bool) -> Result<reqwest::Response, Failure> {
        let follow = if follow { "true" } else { "false" };
        let (origin, offset) = if end >= 0 { ("end", end.to_string()) } else { ("start", "0".to_owned()) };
        let path = with_query(
            &format!("/v1/client/fs/logs/{}", self.alloc),
            &[
                ("task", self.task),
                ("type", self.kind),
                ("follow", follow),
                ("origin", origin),
                ("offset", &offset),
                ("plain", "true"),
            ],
        );
        self.client.open(&path).await.tried(&self.tried())
    }

    /// The last lines, then what follows.
    async fn tail(&self, lines: i64, follow: bool) -> Outcome {
        let found = tail::read(lines, async |end| {
            let mut response = self.open(end, false).await?;
            tail::whole(&mut response, <[u8]>::to_vec).await.tried(&self.tried())
        })
        .await?;
        if !follow {
            out::bytes(last_lines(&found.bytes, lines));
            return Ok(Exit::DONE);
        }
        let mut response = self.open(found.asked, true).await?;
        let cut = Cut::new(lines, found.bytes.len());
        tail::follow(&mut response, cut, <[u8]>::to_vec).await.tried(&self.tried())?;
        Ok(Exit::DONE)
    }
}

impl Logs {
    async fn one(&self, stream: &Stream<'_>) -> Outcome {
        let tails = self.tail || self.lines.is_some() || self.bytes.is_some();
        let lines = self.lines.filter(|lines| *lines >= 0).or((tails && self.bytes.is_none()).then_some(LINES));
        if let Some(lines) = lines {
            return stream.tail(lines, self.follow).await;
        }
        let mut response = stream.open(self.bytes.unwrap_or(-1), self.follow).await?;
        tail::print(&mut response, self.follow, <[u8]>::to_vec).await.tried(&stream.tried())?;
        Ok(Exit::DONE)
    }
}

/// Follows both outputs of a task from their ends. An output that breaks off does not end the other one: its error is
/// returned once both have ended.
async fn follow_both(stdout: &Stream<'_>, stderr: &Stream<'_>) -> Outcome {
    let (mut first, mut second) = (stdout.open(0, true).await?, stderr.open(0, true).await?);
    let both = async {
        let (first, second) = tokio::join!(
            copy(&mut first, out::bytes),
            copy(&mut second, |piece| {
                out::complain(format_args!("{}", String::from_utf8_lossy(piece)));
            })
        );
        first.tried(&stdout.tried()).and(second.tried(&stderr.tried()))
    };
    tokio::select! {
        ended = both => ended?,
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(Exit::DONE)
}

/// Hands on the pieces of an answer until it ends.
///
/// # Errors
/// The connection broke; the text has the causes.
async fn copy(response: &mut reqwest::Response, mut to: impl FnMut(&[u8])) -> Result<(), String> {
    while let Some(piece) = response.chunk().await.map_err(|error| because(&error))? {
        to(&piece);
    }
    Ok(())
}
