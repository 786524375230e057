//! `deployment list`, `status`, `pause`, `resume`, `promote`, `fail`, `unblock`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::ids::{self, Kind};
use crate::jobs::lists::{deployments, items};
use crate::values::GoDuration;
use crate::{Context, General, monitor, outln};

fn rows(found: &[Value]) -> String {
    deployments(found, false)
}

/// The deployment whose id begins so.
async fn found(client: &Client, typed: &str) -> Result<Value, Failure> {
    let kind = Kind {
        list: "/v1/deployments",
        tried: "Error retrieving deployment",
        noun: "deployment",
        none: Some("Error retrieving deployment: Deployment ID \"{}\" matched no deployments"),
        nouns: "deployments",
        rows,
    };
    ids::by_uuid(client, &kind, typed).await
}

/// Arguments of `deployment list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Expression that the deployments must match.
    #[arg(long)]
    filter: Option<String>,
}

impl crate::Run for List {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let filter = self.filter.unwrap_or_default();
        let path = with_query("/v1/deployments", &[("filter", &filter)]);
        let all = self.general.client()?.get(&path).await.tried("Error retrieving deployments")?;
        if !self.format.print(&all)? {
            outln!("{}", deployments(items(&all), self.verbose));
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `deployment status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Follow the deployment until it ends.
    #[arg(long)]
    monitor: bool,
    /// Time between two looks.
    #[arg(long, default_value = "2s")]
    wait: GoDuration,
    /// Id of the deployment, or its beginning.
    deployment: Option<String>,
}

impl crate::Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        if self.format.wanted()? && self.monitor {
            return Err(Failure::new("The monitor flag cannot be used with the '-json' or '-t' flags"));
        }
        let client = self.general.client()?;
        let Some(typed) = &self.deployment else {
            let all = client.get("/v1/deployments").await.tried("Error retrieving deployments")?;
            if !self.format.print(&all)? {
                outln!("{}", deployments(items(&all), self.verbose));
            }
            return Ok(Exit::DONE);
        };
        let deployment = found(&client, typed).await?;
        if self.monitor {
            let id = text(&deployment["ID"]);
            monitor::step(&format!("Monitoring deployment \"{}\"", ids::shown(id, self.verbose)));
            let well = monitor::watch_deployment(&client, id, self.verbose).await?;
            return Ok(if well { Exit::DONE } else { Exit::FAILED });
        }
        if !self.format.print(&deployment)? {
            outln!("{}", monitor::deployment_block(&client, &deployment, self.verbose).await?);
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of commands about one deployment.
#[derive(Args)]
struct One {
    #[command(flatten)]
    general: General,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Return at once, without following the evaluation.
    #[arg(long)]
    detach: bool,
    /// Id of the deployment, or its beginning.
    deployment: String,
}

impl One {
    /// Sends a change; prints what was done, then the evaluation.
    async fn change(&self, route: &str, tried: &str, done: &str, body: impl Fn(&str) -> Value) -> Outcome {
        let client = self.general.client()?;
        let deployment = found(&client, &self.deployment).await?;
        let id = text(&deployment["ID"]);
        let answer = client.put(&format!("/v1/deployment/{route}/{id}"), &body(id)).await.tried(tried)?;
        if !done.is_empty() {
            let reverted = answer["RevertedJobVersion"].as_u64();
            let more =
                reverted.map_or_else(String::new, |version| format!(". Auto-reverted to job version {version}."));
            outln!("Deployment \"{id}\" {done}{more}");
        }
        let eval = text(&answer["EvalID"]);
        if eval.is_empty() {
            return Ok(Exit::DONE);
        }
        if self.detach {
            outln!("Evaluation ID: {eval}");
            return Ok(Exit::DONE);
        }
        if !done.is_empty() {
            outln!();
        }
        monitor::evaluation(&client, eval, self.verbose).await
    }
}

/// Arguments of `deployment pause`.
#[derive(Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    one: One,
}

impl crate::Run for Pause {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.one.general.client()?;
        let deployment = found(&client, &self.one.deployment).await?;
        let id = text(&deployment["ID"]);
        let body = json!({"DeploymentID": id, "Pause": true});
        client.put(&format!("/v1/deployment/pause/{id}"), &body).await.tried("Error pausing deployment")?;
        outln!("Deployment \"{id}\" paused");
        Ok(Exit::DONE)
    }
}

/// Arguments of `deployment resume`.
#[derive(Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    one: One,
}

impl crate::Run for Resume {
    async fn run(self, _: &Context) -> Outcome {
        let body = |id: &str| json!({"DeploymentID": id, "Pause": false});
        self.one.change("pause", "Error resuming deployment", "resumed", body).await
    }
}

/// Arguments of `deployment fail`.
#[derive(Args)]
pub(crate) struct Fail {
    #[command(flatten)]
    one: One,
}

impl crate::Run for Fail {
    async fn run(self, _: &Context) -> Outcome {
        let body = |id: &str| json!({"DeploymentID": id});
        self.one.change("fail", "Error failing deployment", "failed", body).await
    }
}

/// Arguments of `deployment unblock`.
#[derive(Args)]
pub(crate) struct Unblock {
    #[command(flatten)]
    one: One,
}

impl crate::Run for Unblock {
    async fn run(self, _: &Context) -> Outcome {
        let body = |id: &str| json!({"DeploymentID": id});
        self.one.change("unblock", "Error unblocking deployment", "unblocked", body).await
    }
}

/// Arguments of `deployment promote`.
#[derive(Args)]
pub(crate) struct Promote {
    #[command(flatten)]
    one: One,
    /// Group to promote; may be given several times. By default all.
    #[arg(long)]
    group: Vec<String>,
}

impl crate::Run for Promote {
    async fn run(self, _: &Context) -> Outcome {
        let body = |id: &str| {
            if self.group.is_empty() {
                json!({"DeploymentID": id, "All": true})
            } else {
                json!({"DeploymentID": id, "Groups": self.group})
            }
        };
        self.one.change("promote", "Error promoting deployment", "", body).await
    }
}
