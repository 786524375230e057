//! `job eval`, `job promote`, `job revert`: new evaluations of a job.

use clap::Args;
use serde_json::{Value, json};
use songline_model::quote;

use super::run::route;
use super::stop::found;
use crate::client::{Client, short, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, General, ask, monitor, outln};

/// Flags of commands that end with an evaluation.
#[derive(Args)]
pub(super) struct Follow {
    /// Return at once, without following the evaluation.
    #[arg(long)]
    pub(super) detach: bool,
    /// Print full ids.
    #[arg(long)]
    pub(super) verbose: bool,
}

impl Follow {
    /// Prints the evaluation of an answer, or follows it.
    pub(super) async fn end(&self, client: &Client, answer: &Value) -> Outcome {
        let eval = text(&answer["EvalID"]);
        if eval.is_empty() {
            return Ok(Exit::DONE);
        }
        if self.detach {
            outln!("Evaluation ID: {eval}");
            return Ok(Exit::DONE);
        }
        monitor::evaluation(client, eval, self.verbose).await
    }
}

/// Arguments of `job eval`.
#[derive(Args)]
pub(crate) struct Eval {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    follow: Follow,
    /// Reschedule failed allocations, also those that have used up their attempts.
    #[arg(long)]
    force_reschedule: bool,
    /// Id of the job, or its beginning.
    job: String,
}

impl crate::Run for Eval {
    async fn run(self, _: &Context) -> Outcome {
        let (client, id) = found(&self.general, &self.job).await?;
        let body = json!({"JobID": id, "EvalOptions": {"ForceReschedule": self.force_reschedule}});
        let answer = client.put(&route(&id, "/evaluate"), &body).await.tried("Error evaluating job")?;
        if self.follow.detach {
            let eval = &answer["EvalID"];
            outln!("Created eval ID: \"{}\"", if self.follow.verbose { text(eval) } else { short(eval) });
            return Ok(Exit::DONE);
        }
        self.follow.end(&client, &answer).await
    }
}

/// Arguments of `job promote`.
#[derive(Args)]
pub(crate) struct Promote {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    follow: Follow,
    /// Group to promote; may be given several times. By default all.
    #[arg(long)]
    group: Vec<String>,
    /// Id of the job, or its beginning.
    job: String,
}

impl crate::Run for Promote {
    async fn run(self, _: &Context) -> Outcome {
        let (client, id) = found(&self.general, &self.job).await?;
        let deployment = client.get(&route(&id, "/deployment")).await.tried("Error retrieving deployments")?;
        let deployment = text(&deployment["ID"]);
        if deployment.is_empty() {
            return Err(Failure::new(format!("Job {} has no deployment to promote", quote(&id))));
        }
        let body = if self.group.is_empty() {
            json!({"DeploymentID": deployment, "All": true})
        } else {
            json!({"DeploymentID": deployment, "Groups": self.group})
        };
        let path = format!("/v1/deployment/promote/{deployment}");
        let tried = format!("Error promoting deployment \"{deployment}\" for job {}", quote(&id));
        let answer = client.put(&path, &body).await.tried(&tried)?;
        self.follow.end(&client, &answer).await
    }
}

/// Arguments of `job revert`.
#[derive(Args)]
pub(crate) struct Revert {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    follow: Follow,
    /// Token of Consul; else `CONSUL_HTTP_TOKEN`.
    #[arg(long)]
    consul_token: Option<String>,
    /// Token of Vault; else `VAULT_TOKEN`.
    #[arg(long)]
    vault_token: Option<String>,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Id of the job, or its beginning.
    job: String,
    /// Version to return to.
    version: String,
}

impl crate::Run for Revert {
    async fn run(self, _: &Context) -> Outcome {
        let version: u64 = self.version.parse().tried("Failed to parse job-version flag")?;
        let (client, id) = found(&self.general, &self.job).await?;
        if !self.yes && id != self.job {
            let question = format!("Are you sure you want to revert job {} to version {version}?", quote(&id));
            if let Some(exit) = ask::confirm(&question, "Cancelling job revert")? {
                return Ok(exit);
            }
        }
        let token = |flag: Option<String>, name: &str| flag.or_else(|| std::env::var(name).ok()).unwrap_or_default();
        let body = json!({
            "JobID": id,
            "JobVersion": version,
            "ConsulToken": token(self.consul_token, "CONSUL_HTTP_TOKEN"),
            "VaultToken": token(self.vault_token, "VAULT_TOKEN"),
        });
        let answer = client.put(&route(&id, "/revert"), &body).await.tried("Error retrieving job versions")?;
        self.follow.end(&client, &answer).await
    }
}
