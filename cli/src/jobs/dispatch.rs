//! `job dispatch` and `job periodic force`: new children of a job.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};

use super::act::Follow;
use super::lists::jobs;
use super::run::route;
use crate::client::{text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::layout::block;
use crate::{Context, General, ids, input, monitor, outln};

/// Arguments of `job dispatch`.
#[derive(Args)]
pub(crate) struct Dispatch {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    follow: Follow,
    /// Metadata of the child, `key=value`; may be given several times.
    #[arg(long)]
    meta: Vec<String>,
    /// Text by which a repeated dispatch makes one child only.
    #[arg(long)]
    idempotency_token: Option<String>,
    /// Beginning of the child's id.
    #[arg(long)]
    id_prefix_template: Option<String>,
    /// Id of the parameterized job, or its beginning.
    job: String,
    /// File with the payload, or `-` for standard input.
    payload: Option<String>,
}

impl crate::Run for Dispatch {
    async fn run(self, _: &Context) -> Outcome {
        let mut meta = Map::new();
        for pair in &self.meta {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(Failure::new(format!("Error parsing meta value: {pair}")));
            };
            meta.insert(key.to_owned(), json!(value));
        }
        let payload =
            self.payload.as_deref().map(|file| input::bytes_for("Error reading input data", file)).transpose()?;
        let client = self.general.client()?;
        let fits = |job: &Value| job["ParameterizedJob"] == true;
        let (id, namespace) = ids::job_where(&client, &self.job, "parameterized job", fits, jobs).await?;
        let client = client.with_scope(None, Some(&namespace));
        let body = json!({
            "JobID": id,
            "Meta": meta,
            "Payload": payload.map(|payload| STANDARD.encode(payload)),
            "IdPrefixTemplate": self.id_prefix_template.unwrap_or_default(),
        });
        let token = self.idempotency_token.unwrap_or_default();
        let path = with_query(&route(&id, "/dispatch"), &[("idempotency_token", &token)]);
        let answer = client.put(&path, &body).await.tried("Failed to dispatch job")?;
        let eval = text(&answer["EvalID"]);
        let mut pairs = vec![("Dispatched Job ID", text(&answer["DispatchedJobID"]).to_owned())];
        if !eval.is_empty() {
            pairs.push(("Evaluation ID", ids::shown(eval, self.follow.verbose)));
        }
        outln!("{}", block(&pairs));
        if self.follow.detach || eval.is_empty() {
            return Ok(Exit::DONE);
        }
        outln!();
        monitor::evaluation(&client, eval, self.follow.verbose).await
    }
}

/// Arguments of `job periodic force`.
#[derive(Args)]
pub(crate) struct Force {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    follow: Follow,
    /// Id of the periodic job, or its beginning.
    job: String,
}

impl crate::Run for Force {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let fits = |job: &Value| job["Periodic"] == true;
        let (id, namespace) = ids::job_where(&client, &self.job, "periodic job", fits, jobs).await?;
        let client = client.with_scope(None, Some(&namespace));
        let answer = client.put(&route(&id, "/periodic/force"), &Value::Null).await;
        let answer = answer.tried(&format!("Error forcing periodic job {id:?}"))?;
        if self.follow.detach {
            outln!("Force periodic successful\nEvaluation ID: {}", text(&answer["EvalID"]));
            return Ok(Exit::DONE);
        }
        self.follow.end(&client, &answer).await
    }
}
