//! `quota apply`, `delete`, `init`, `inspect`, `list`, `status`. `spec` reads and writes files.

mod spec;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::client::{Client, escape, text};
use crate::{General, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make or change a quota.
    Apply {
        #[command(flatten)]
        target: General,
        /// The file is JSON in the form of the HTTP API.
        #[arg(long)]
        json: bool,
        /// A file with the quota; `-` is the standard input.
        file: String,
    },
    /// Delete a quota that no namespace uses.
    Delete {
        #[command(flatten)]
        target: General,
        /// Its name.
        name: String,
    },
    /// Write an example file.
    Init {
        /// Write JSON.
        #[arg(long)]
        json: bool,
        /// The file, if not `spec.hcl` or `spec.json`.
        file: Option<PathBuf>,
    },
    /// Show a quota and its use as JSON.
    Inspect {
        #[command(flatten)]
        target: General,
        /// Its name, or a prefix of it.
        name: String,
    },
    /// Show all quotas.
    List {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
    },
    /// Show a quota with the use of each limit.
    Status {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
        /// Its name, or a prefix of it.
        name: String,
    },
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Apply { target, json, file } => {
            let quota = spec::read(&file, json)?;
            target.client()?.put("/v1/quota", &quota).await.context("applying the quota")?;
            crate::outln!("Successfully applied quota specification {:?}!", text(&quota["Name"]));
        }
        Command::Delete { target, name } => {
            target.client()?.delete(&format!("/v1/quota/{}", escape(&name))).await.context("deleting the quota")?;
            crate::outln!("Successfully deleted quota {name:?}!");
        }
        Command::Init { json, file } => spec::init(json, file)?,
        Command::Inspect { target, name } => {
            let (quota, usage) = read(&target.client()?, &name).await?;
            crate::outln!("{}", serde_json::to_string_pretty(&json!({ "Spec": quota, "Usage": usage }))?);
        }
        Command::List { target, json } => {
            let quotas = target.client()?.get("/v1/quotas").await.context("retrieving quotas")?;
            shown(&quotas, json, list)?;
        }
        Command::Status { target, json, name } => {
            let (quota, usage) = read(&target.client()?, &name).await?;
            shown(&quota, json, |quota| status(quota, &usage))?;
        }
    }
    Ok(())
}

/// A quota by its name or by a prefix that no other quota has, and its use.
async fn read(api: &Client, name: &str) -> anyhow::Result<(Value, Value)> {
    let found = api.get(&format!("/v1/quotas?prefix={}", escape(name))).await.context("retrieving the quota")?;
    let quotas = found.as_array().map(Vec::as_slice).unwrap_or_default();
    let quota = match quotas {
        [] => bail!("Quota {name:?} matched no quotas"),
        [only] => only,
        [first, ..] if text(&first["Name"]) == name => first,
        [..] => {
            list(&found);
            bail!("Prefix {name:?} matched multiple quotas");
        }
    };
    let usage = api.get(&format!("/v1/quota/usage/{}", escape(text(&quota["Name"])))).await;
    Ok((quota.clone(), usage.context("retrieving the use of the quota")?))
}

fn list(quotas: &Value) {
    let row = |quota: &Value| vec![text(&quota["Name"]).to_owned(), text(&quota["Description"]).to_owned()];
    let rows: Vec<_> = quotas.as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        crate::outln!("No quotas found");
        return;
    }
    table::print(&["Name", "Description"], &rows);
}

fn status(quota: &Value, usage: &Value) {
    let limits = quota["Limits"].as_array().map(Vec::as_slice).unwrap_or_default();
    table::pairs(&[
        ("Name", text(&quota["Name"]).to_owned()),
        ("Description", text(&quota["Description"]).to_owned()),
        ("Limits", limits.len().to_string()),
    ]);
    crate::outln!("\nQuota Limits");
    if limits.is_empty() {
        crate::outln!("No quota limits defined");
        return;
    }
    let row = |limit: &Value| {
        let used = &usage["Used"][text(&limit["Hash"])];
        let of = |path: &str| share(used.pointer(path), limit.pointer(path));
        vec![
            text(&limit["Region"]).to_owned(),
            of("/RegionLimit/CPU"),
            of("/RegionLimit/Cores"),
            of("/RegionLimit/MemoryMB"),
            of("/RegionLimit/MemoryMaxMB"),
            of("/AllocationsLimit"),
            of("/VariablesLimit"),
        ]
    };
    table::print(
        &["Region", "CPU Usage", "Cores", "Memory Usage", "Memory Max Usage", "Allocations", "Variables (MiB)"],
        &limits.iter().map(row).collect::<Vec<_>>(),
    );
    let devices = limits.iter().flat_map(|limit| devices(limit, usage)).collect::<Vec<_>>();
    if !devices.is_empty() {
        crate::outln!("\nDevices");
        table::print(&["Region", "Name", "Usage"], &devices);
    }
}

fn devices(limit: &Value, usage: &Value) -> Vec<Vec<String>> {
    let used = &usage["Used"][text(&limit["Hash"])]["RegionLimit"]["Devices"];
    let row = |(at, device): (usize, &Value)| {
        let used = used[at]["Count"].as_u64().map_or("-".to_owned(), |count| count.to_string());
        vec![
            text(&limit["Region"]).to_owned(),
            text(&device["Name"]).to_owned(),
            format!("{used} / {}", device["Count"].as_u64().unwrap_or(0)),
        ]
    };
    limit["RegionLimit"]["Devices"].as_array().into_iter().flatten().enumerate().map(row).collect()
}

/// `used / limit`; `-` is a use that this region does not know, `inf` no limit.
fn share(used: Option<&Value>, limit: Option<&Value>) -> String {
    let used = used.and_then(Value::as_i64).map_or("-".to_owned(), |used| used.to_string());
    let limit = match limit.and_then(Value::as_i64).unwrap_or(0) {
        0 => "inf".to_owned(),
        limit => limit.max(0).to_string(),
    };
    format!("{used} / {limit}")
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}

/// Prints an answer as it came, or in words.
fn shown(answer: &Value, json: bool, in_words: impl FnOnce(&Value)) -> anyhow::Result<()> {
    if json {
        crate::outln!("{}", serde_json::to_string_pretty(answer)?);
    } else {
        in_words(answer);
    }
    Ok(())
}
