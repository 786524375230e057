//! `job inspect`, `job allocs`, `job deployments`.

use clap::Args;
use serde_json::{Value, json};

use super::lists::{allocs, deployments, items};
use super::run::route;
use super::stop::found;
use crate::client::{Client, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
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
        let job = version(&client, &id, self.version.as_deref()).await.tried("Error inspecting job")?;
        // A template gets the job itself.
        if self.format.json || !self.format.print(&job)? {
            outln!("{}", format::json(&json!({ "Job": job })));
        }
        Ok(Exit::DONE)
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
        let answer = client.get(&path).await.tried("Error retrieving allocations")?;
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
        let answer = client.get(&path).await.tried("Error retrieving deployments")?;
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
            outln!("{}", monitor::deployment_block(&answer, self.verbose));
        }
        Ok(Exit::DONE)
    }
}
