//! `recommendation apply`, `dismiss`, `info`, `list`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::{block, list};
use crate::{Context, General, Run, ids, monitor, outln};

/// Sends what becomes of recommendations.
async fn decide(general: &General, body: &Value, tried: &str) -> Result<Value, Failure> {
    general.client()?.post("/v1/recommendations/apply", body).await.tried(tried)
}

/// Arguments of `recommendation apply`.
#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    general: General,
    /// Do not wait for the evaluations.
    #[arg(long)]
    detach: bool,
    /// Go past Sentinel policies that are soft-mandatory.
    #[arg(long)]
    policy_override: bool,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Ids of recommendations.
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Run for Apply {
    async fn run(self, _: &Context) -> Outcome {
        let body = json!({ "Apply": self.ids, "PolicyOverride": self.policy_override });
        let answer = decide(&self.general, &body, "Error applying recommendations").await?;
        let client = self.general.client()?;
        let mut exit = Exit::DONE;
        for updated in items(&answer["UpdatedJobs"]) {
            let (job, eval) = (text(&updated["JobID"]), text(&updated["EvalID"]));
            outln!("Updated job {job:?}, evaluation {:?}", ids::shown(eval, self.verbose));
            if !self.detach {
                let watched = monitor::evaluation(&client, eval, self.verbose).await?;
                exit = if exit == Exit::DONE { watched } else { exit };
            }
        }
        Ok(exit)
    }
}

/// Arguments of `recommendation dismiss`.
#[derive(Args)]
pub(crate) struct Dismiss {
    #[command(flatten)]
    general: General,
    /// Ids of recommendations.
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Run for Dismiss {
    async fn run(self, _: &Context) -> Outcome {
        decide(&self.general, &json!({ "Dismiss": self.ids }), "Error dismissing recommendations").await?;
        outln!("Successfully dismissed recommendations");
        Ok(Exit::DONE)
    }
}

/// Arguments of `recommendation info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Id of the recommendation.
    id: String,
}

impl Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let path = format!("/v1/recommendation/{}", escape(&self.id));
        let found = self.general.client()?.get(&path).await.tried("Error reading recommendation")?;
        self.format.show(&found, |found| {
            let field = |key: &str| text(&found[key]).to_owned();
            block(&[
                ("ID", field("ID")),
                ("Namespace", field("Namespace")),
                ("Job ID", field("JobID")),
                ("Task Group", field("Group")),
                ("Task", field("Task")),
                ("Resource", field("Resource")),
                ("Value", found["Value"].to_string()),
                ("Current", found["Current"].to_string()),
            ])
        })
    }
}

/// Arguments of `recommendation list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Only those of this job.
    #[arg(long, default_value = "")]
    job: String,
    /// Only those of this group; needs `-job`.
    #[arg(long, default_value = "")]
    group: String,
    /// Only those of this task; needs `-group`.
    #[arg(long, default_value = "")]
    task: String,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        if !self.group.is_empty() && self.job.is_empty() {
            return Err(Failure::new("Job flag must be supplied when using group flag"));
        }
        if !self.task.is_empty() && self.group.is_empty() {
            return Err(Failure::new("Group flag must be supplied when using task flag"));
        }
        let query = [("job", &*self.job), ("group", &*self.group), ("task", &*self.task)];
        let found = self.general.client()?.get(&with_query("/v1/recommendations", &query)).await;
        let found = found.tried("Error listing recommendations")?;
        let row = |one: &Value| {
            let mut cells = ["ID", "JobID", "Group", "Task", "Resource"].map(|key| text(&one[key]).to_owned()).to_vec();
            cells.push(one["Value"].to_string());
            cells
        };
        self.format.show(&found, |found| match items(found) {
            [] => "No recommendations found".to_owned(),
            found => {
                list(&["ID", "Job", "Group", "Task", "Resource", "Value"], &found.iter().map(row).collect::<Vec<_>>())
            }
        })
    }
}
