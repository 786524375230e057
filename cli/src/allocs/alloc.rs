//! `alloc status`, `alloc logs`, `alloc exec`.

use anyhow::{Context, bail};
use base64::Engine;
use clap::Subcommand;
use serde_json::Value;
use std::io::Write;

use crate::client::{Client, short, text};
use crate::{General, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show an allocation and what happened to its tasks.
    Status {
        #[command(flatten)]
        target: General,
        /// Its id, or the beginning of it.
        alloc: String,
    },
    /// Print what a task wrote.
    Logs {
        #[command(flatten)]
        target: General,
        /// Standard error instead of standard output.
        #[arg(long)]
        stderr: bool,
        /// Go on as it writes more.
        #[arg(short, long)]
        follow: bool,
        /// Its id, or the beginning of it.
        alloc: String,
        /// The task, if the allocation has several.
        task: Option<String>,
    },
    /// Run a command in a running task.
    Exec(super::exec::Options),
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Status { target, alloc } => {
            let api = target.client()?;
            show(&find(&api, &alloc).await?);
            Ok(())
        }
        Command::Logs { target, stderr, follow, alloc, task } => {
            let api = target.client()?;
            let alloc = find(&api, &alloc).await?;
            let task = match task {
                Some(task) => task,
                None => only_task(&alloc)?,
            };
            let kind = if stderr { "stderr" } else { "stdout" };
            let id = text(&alloc["ID"]);
            let path = format!("/v1/client/fs/logs/{id}?task={task}&type={kind}&follow={follow}");
            copy_frames(api.open(&path).await?).await
        }
        Command::Exec(options) => super::exec::run(options).await,
    }
}

pub(super) async fn find(api: &Client, prefix: &str) -> anyhow::Result<Value> {
    // Ids are looked up by whole bytes, so an odd last digit is left out.
    let digits = prefix.chars().filter(|c| *c != '-').count();
    let even = if digits % 2 == 1 { &prefix[..prefix.len() - 1] } else { prefix };
    let found = api.get(&format!("/v1/allocations?prefix={even}")).await?;
    let matches: Vec<_> =
        found.as_array().into_iter().flatten().filter(|alloc| text(&alloc["ID"]).starts_with(prefix)).collect();
    match matches[..] {
        [] => bail!("No allocation(s) with prefix or id {prefix:?} found"),
        [one] => Ok(api.get(&format!("/v1/allocation/{}", text(&one["ID"]))).await?),
        _ => bail!("{} allocations begin with {prefix:?}", matches.len()),
    }
}

pub(super) fn only_task(alloc: &Value) -> anyhow::Result<String> {
    let tasks = alloc["AllocatedResources"]["Tasks"].as_object().context("the allocation has no tasks")?;
    match tasks.keys().collect::<Vec<_>>()[..] {
        [one] => Ok(one.clone()),
        ref several => bail!("the allocation has {} tasks: name one", several.len()),
    }
}

fn show(alloc: &Value) {
    table::pairs(&[
        ("ID", text(&alloc["ID"]).to_owned()),
        ("Name", text(&alloc["Name"]).to_owned()),
        ("Job", text(&alloc["JobID"]).to_owned()),
        ("Node", format!("{} ({})", text(&alloc["NodeName"]), short(&alloc["NodeID"]))),
        ("Desired", text(&alloc["DesiredStatus"]).to_owned()),
        ("Status", text(&alloc["ClientStatus"]).to_owned()),
        ("Description", text(&alloc["ClientDescription"]).to_owned()),
    ]);
    for (task, state) in alloc["TaskStates"].as_object().into_iter().flatten() {
        crate::outln!("\nTask \"{task}\" is \"{}\"", text(&state["State"]));
        let rows: Vec<_> = state["Events"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|event| {
                let at = songline_model::Time::from_nanos(event["Time"].as_i64().unwrap_or(0));
                vec![at.to_string(), text(&event["Type"]).to_owned(), text(&event["DisplayMessage"]).to_owned()]
            })
            .collect();
        table::print(&["Time", "Type", "Description"], &rows);
    }
}

/// Prints the data of frames until the answer ends.
async fn copy_frames(mut response: reqwest::Response) -> anyhow::Result<()> {
    let mut rest = Vec::new();
    let mut out = std::io::stdout();
    while let Some(chunk) = response.chunk().await? {
        rest.extend_from_slice(&chunk);
        let mut used = 0;
        let mut frames = serde_json::Deserializer::from_slice(&rest).into_iter::<Value>();
        while let Some(Ok(frame)) = frames.next() {
            used = frames.byte_offset();
            if let Some(data) = frame["Data"].as_str() {
                out.write_all(&base64::engine::general_purpose::STANDARD.decode(data)?)?;
            }
        }
        drop(frames);
        out.flush()?;
        rest.drain(..used);
    }
    Ok(())
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
