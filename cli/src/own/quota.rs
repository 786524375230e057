//! `quota apply`, `delete`, `init`, `inspect`, `list`, `status`. `spec` reads and writes files.

mod spec;

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};
use songline_model::quote;

use crate::client::{Client, escape, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::{self, Format};
use crate::{General, layout, outln, table};

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
        #[command(flatten)]
        format: Format,
        /// Its name, or a prefix of it.
        name: String,
    },
    /// Show all quotas.
    List {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        format: Format,
    },
    /// Show a quota with the use of each limit.
    Status {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        format: Format,
        /// Its name, or a prefix of it.
        name: String,
    },
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> Outcome {
        match self {
            Command::Apply { target, json, file } => {
                let quota = spec::read(&file, json)?;
                target.client()?.put("/v1/quota", &quota).await.tried("Error applying quota")?;
                outln!("Successfully applied quota specification {}!", quote(text(&quota["Name"])));
                Ok(Exit::DONE)
            }
            Command::Delete { target, name } => {
                let done = format!("Successfully deleted quota {}!", quote(&name));
                target.delete(&format!("/v1/quota/{}", escape(&name)), "Error deleting quota", &done).await
            }
            Command::Init { json, file } => {
                spec::init(json, file)?;
                Ok(Exit::DONE)
            }
            Command::Inspect { target, format, name } => {
                format.wanted()?;
                let (quota, usage) = read(&target.client()?, &name).await?;
                format.show(&json!({ "Spec": quota, "Usage": usage }), format::json)
            }
            Command::List { target, format } => {
                format.wanted()?;
                let quotas = target.client()?.get("/v1/quotas").await.tried("Error retrieving quotas")?;
                format.show(&quotas, list)
            }
            Command::Status { target, format, name } => {
                format.wanted()?;
                let (quota, usage) = read(&target.client()?, &name).await?;
                if !format.print(&quota)? {
                    status(&quota, &usage);
                }
                Ok(Exit::DONE)
            }
        }
    }
}

/// A quota by its name or by a prefix that no other quota has, and its use.
async fn read(api: &Client, name: &str) -> Result<(Value, Value), Failure> {
    let tried = "Error retrieving quota";
    let found = api.get(&format!("/v1/quotas?prefix={}", escape(name))).await.tried(tried)?;
    let quotas = found.as_array().map(Vec::as_slice).unwrap_or_default();
    let quota = match quotas {
        [] => return Err(Failure::of(tried, format_args!("Quota {} matched no quotas", quote(name)))),
        [only] => only,
        several => match several.iter().find(|one| text(&one["Name"]) == name) {
            Some(exact) => exact,
            None => return Err(Failure::new(format!("Prefix matched multiple quotas\n\n{}", list(&found)))),
        },
    };
    let usage = api.get(&format!("/v1/quota/usage/{}", escape(text(&quota["Name"])))).await;
    Ok((quota.clone(), usage.tried(tried)?))
}

fn list(quotas: &Value) -> String {
    let row = |quota: &Value| vec![text(&quota["Name"]).to_owned(), text(&quota["Description"]).to_owned()];
    let rows: Vec<_> = quotas.as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() { "No quotas found".to_owned() } else { layout::list(&["Name", "Description"], &rows) }
}

fn status(quota: &Value, usage: &Value) {
    let limits = quota["Limits"].as_array().map(Vec::as_slice).unwrap_or_default();
    table::pairs(&[
        ("Name", text(&quota["Name"]).to_owned()),
        ("Description", text(&quota["Description"]).to_owned()),
        ("Limits", limits.len().to_string()),
    ]);
    outln!("\nQuota Limits");
    if limits.is_empty() {
        outln!("No quota limits defined");
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
        outln!("\nDevices");
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
