//! `job inspect`, `job allocs`, `job deployments`.

use clap::Args;
use serde_json::{Value, json};

use super::diff;
use super::lists::{allocs, deployments, items, newest_first};
use super::run::route;
use super::stop::found;
use crate::client::{Client, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::block;
use crate::values::time;
use crate::{Context, General, format, monitor, outln};

/// Arguments of `job inspect`.
#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Version of the job; by default the newest.
    #[arg(long)]
    version: Option<String>,
    /// Id of the job, or its beginning.
    job: String,
}

impl crate::Run for Inspect {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let (client, id) = found(&self.general, &self.job).await?;
        let mut job = version(&client, &id, self.version.as_deref()).await.tried("Error inspecting job")?;
        as_data(&mut job);
        // A template gets the job itself.
        if self.format.json || !self.format.print(&job)? {
            outln!("{}", format::json(&json!({ "Job": job })));
        }
        Ok(Exit::DONE)
    }
}

/// Gives a job the members of the reference's client: those that it does not know are left out, those that an answer
/// does not have are null.
pub(super) fn as_data(job: &mut Value) {
    for key in ["Migrate", "Reschedule", "Update"] {
        if job.get(key).is_none() {
            job[key] = Value::Null;
        }
    }
    for group in job["TaskGroups"].as_array_mut().into_iter().flatten() {
        for task in group["Tasks"].as_array_mut().into_iter().flatten() {
            if task["CSIPluginConfig"].is_null()
                && let Some(members) = task.as_object_mut()
            {
                members.remove("CSIPluginConfig");
            }
            if let Some(logs) = task["LogConfig"].as_object_mut() {
                logs.entry("Enabled").or_insert(Value::Null);
            }
        }
    }
}

/// One version of a job.
async fn version(client: &Client, id: &str, typed: Option<&str>) -> Result<Value, String> {
    let Some(typed) = typed.filter(|typed| !typed.is_empty()) else {
        return client.get(&route(id, "")).await.map_err(|error| error.to_string());
    };
    let wanted: u64 = typed.parse().map_err(|_| format!("{typed:?} is not a version"))?;
    let answer = client.get(&route(id, "/versions")).await.map_err(|error| error.to_string())?;
    let found = items(&answer["Versions"]).iter().find(|job| job["Version"].as_u64() == Some(wanted));
    found.cloned().ok_or_else(|| format!("job {id:?} with version {wanted} couldn't be found"))
}

/// Arguments of `job history`.
#[derive(Args)]
pub(crate) struct History {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Show what differs from the version before.
    #[arg(long = "p")]
    differences: bool,
    /// Show the whole job of each version.
    #[arg(long)]
    full: bool,
    /// Show this version only.
    #[arg(long)]
    version: Option<String>,
    /// Id of the job, or its beginning.
    job: String,
}

impl crate::Run for History {
    async fn run(self, _: &Context) -> Outcome {
        if self.format.wanted()? && (self.differences || self.full) {
            return Err(Failure::new("-json and -t are exclusive with -p and -full"));
        }
        let (client, id) = found(&self.general, &self.job).await?;
        let diffs = if self.differences { "true" } else { "false" };
        let path = with_query(&route(&id, "/versions"), &[("diffs", diffs)]);
        let answer = client.get(&path).await.tried("Error retrieving job versions")?;
        let mut versions = items(&answer["Versions"]).to_vec();
        let diffs = items(&answer["Diffs"]).to_vec();
        let mut pairs: Vec<(Value, Option<Value>)> =
            versions.drain(..).enumerate().map(|(at, job)| (job, diffs.get(at).cloned())).collect();
        if let Some(typed) = self.version.as_deref().filter(|typed| !typed.is_empty()) {
            let wanted: u64 = typed.parse().tried(&format!("Error parsing version value {typed:?}"))?;
            pairs.retain(|(job, _)| job["Version"].as_u64() == Some(wanted));
            if pairs.is_empty() {
                return Err(Failure::new(format!("Error retrieving job versions: version {wanted} not found")));
            }
        }
        let data = if self.version.is_some() {
            pairs[0].0.clone()
        } else {
            Value::Array(pairs.iter().map(|(job, _)| job.clone()).collect())
        };
        if self.format.print(&data)? {
            return Ok(Exit::DONE);
        }
        let shown: Vec<String> = pairs.iter().map(|(job, diff)| self.shown(job, diff.as_ref())).collect();
        outln!("{}", shown.join("\n\n"));
        Ok(Exit::DONE)
    }
}

impl History {
    fn shown(&self, job: &Value, diff: Option<&Value>) -> String {
        if self.full {
            let head = format!("Version     = {}", job["Version"]);
            return format!("{head}\n{}", format::json(job));
        }
        let mut lines = block(&[
            ("Version", job["Version"].to_string()),
            ("Stable", (job["Stable"] == true).to_string()),
            ("Submit Date", time(job["SubmitTime"].as_i64().unwrap_or(0))),
        ]);
        if let Some(diff) = diff.filter(|_| self.differences) {
            lines.push_str(&format!("\nDiff        =\n{}", diff::job(diff, diff::Shown::default())));
        }
        lines
    }
}

/// Arguments of `job allocs`.
#[derive(Args)]
pub(crate) struct Allocs {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids and times.
    #[arg(long)]
    verbose: bool,
    /// Show those of purged jobs of this id, too.
    #[arg(long)]
    all: bool,
    /// Id of the job, or its beginning.
    job: String,
}

impl crate::Run for Allocs {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let (client, id) = found(&self.general, &self.job).await?;
        let all = if self.all { "true" } else { "" };
        let path = with_query(&route(&id, "/allocations"), &[("all", all)]);
        let answer = newest_first(client.get(&path).await.tried("Error retrieving allocations")?);
        if !self.format.print(&answer)? {
            outln!("{}", allocs(items(&answer), self.verbose, true));
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `job deployments`.
#[derive(Args)]
pub(crate) struct Deployments {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Show the newest only, in full.
    #[arg(long)]
    latest: bool,
    /// Show those of purged jobs of this id, too.
    #[arg(long)]
    all: bool,
    /// Id of the job, or its beginning.
    job: String,
}

impl crate::Run for Deployments {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let (client, id) = found(&self.general, &self.job).await?;
        if self.latest {
            return self.latest(&client, &id).await;
        }
        let all = if self.all { "true" } else { "" };
        let path = with_query(&route(&id, "/deployments"), &[("all", all)]);
        let answer = newest_first(client.get(&path).await.tried("Error retrieving deployments")?);
        if !self.format.print(&answer)? {
            outln!("{}", deployments(items(&answer), self.verbose));
        }
        Ok(Exit::DONE)
    }
}

impl Deployments {
    async fn latest(&self, client: &Client, id: &str) -> Result<Exit, Failure> {
        let answer = client.get(&route(id, "/deployment")).await.tried("Error retrieving deployments")?;
        if self.format.print(&answer)? {
            return Ok(Exit::DONE);
        }
        if answer.is_null() {
            outln!("No deployment found");
        } else {
            outln!("{}", monitor::deployment_block(client, &answer, self.verbose).await?);
        }
        Ok(Exit::DONE)
    }
}
