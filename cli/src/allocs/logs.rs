//! `alloc logs`: the output of a task.

use clap::Args;
use serde_json::Value;

use super::find::{by_id, of_job, only_task};
use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome};
use crate::{Context, General, out};

/// Number of lines of `-tail` without a number.
const LINES: i64 = 10;
/// Estimated length of a line, for the place where the tail is looked for.
const LINE_BYTES: i64 = 120;

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
        if self.follow && plain {
            return self.follow_both(&client, &alloc, &task).await;
        }
        let kind = if self.stderr { "stderr" } else { "stdout" };
        self.one(&client, &alloc, &task, kind).await
    }
}

impl Logs {
    /// Path of a stream of frames' bytes.
    fn path(&self, alloc: &Value, task: &str, kind: &str, end: i64) -> String {
        let follow = if self.follow { "true" } else { "false" };
        let (origin, offset) = if end >= 0 { ("end", end.to_string()) } else { ("start", "0".to_owned()) };
        with_query(
            &format!("/v1/client/fs/logs/{}", text(&alloc["ID"])),
            &[
                ("task", task),
                ("type", kind),
                ("follow", follow),
                ("origin", origin),
                ("offset", &offset),
                ("plain", "true"),
            ],
        )
    }

    async fn one(&self, client: &Client, alloc: &Value, task: &str, kind: &str) -> Outcome {
        let tails = self.tail || self.lines.is_some() || self.bytes.is_some();
        let lines = self.lines.filter(|lines| *lines >= 0).or((tails && self.bytes.is_none()).then_some(LINES));
        let end = match (self.bytes, lines) {
            (Some(bytes), _) => bytes,
            (None, Some(lines)) => lines.saturating_mul(LINE_BYTES),
            (None, None) => -1,
        };
        let tried = format!("Failed to read {kind} file: error reading file");
        let mut response =
            client.open(&self.path(alloc, task, kind, end)).await.map_err(|error| Failure::of(&tried, error))?;
        let Some(lines) = lines else {
            copy(&mut response, out::bytes).await.map_err(|error| Failure::of(&tried, error))?;
            return Ok(Exit::DONE);
        };
        let mut head = Vec::new();
        if self.follow {
            // What is there comes in one piece, mostly; what follows is printed as it comes.
            if let Some(piece) = response.chunk().await.map_err(|error| Failure::of(&tried, error))? {
                head.extend_from_slice(&piece);
            }
            out::bytes(last_lines(&head, lines));
            copy(&mut response, out::bytes).await.map_err(|error| Failure::of(&tried, error))?;
            return Ok(Exit::DONE);
        }
        copy(&mut response, |piece| head.extend_from_slice(piece)).await.map_err(|error| Failure::of(&tried, error))?;
        out::bytes(last_lines(&head, lines));
        Ok(Exit::DONE)
    }

    /// Follows both streams from their ends.
    async fn follow_both(&self, client: &Client, alloc: &Value, task: &str) -> Outcome {
        let open = async |kind: &str| {
            let tried = format!("Failed to read {kind} file: error reading file");
            client.open(&self.path(alloc, task, kind, 0)).await.map_err(|error| Failure::of(&tried, error))
        };
        let (mut stdout, mut stderr) = (open("stdout").await?, open("stderr").await?);
        let both = async {
            tokio::join!(
                copy(&mut stdout, out::bytes),
                copy(&mut stderr, |piece| {
                    out::complain(format_args!("{}", String::from_utf8_lossy(piece)));
                })
            )
        };
        tokio::select! {
            _ = both => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(Exit::DONE)
    }
}

/// Hands on the pieces of an answer until it ends or the user interrupts.
async fn copy(response: &mut reqwest::Response, mut to: impl FnMut(&[u8])) -> reqwest::Result<()> {
    loop {
        tokio::select! {
            piece = response.chunk() => match piece? {
                Some(piece) => to(&piece),
                None => return Ok(()),
            },
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// The last lines of a text.
fn last_lines(text: &[u8], lines: i64) -> &[u8] {
    let mut left = usize::try_from(lines).unwrap_or(0);
    if left == 0 {
        return &[];
    }
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    for (at, byte) in body.iter().enumerate().rev() {
        if *byte == b'\n' {
            left -= 1;
            if left == 0 {
                return &text[at + 1..];
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn last_lines_are_cut_at_line_breaks() {
        assert_eq!(last_lines(b"one\ntwo\nthree\n", 2), b"two\nthree\n");
        assert_eq!(last_lines(b"one\ntwo", 1), b"two");
        assert_eq!(last_lines(b"one\n", 5), b"one\n");
        assert_eq!(last_lines(b"one\n", 0), b"");
    }
}
