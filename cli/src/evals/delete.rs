//! `eval delete`.

use clap::Args;
use serde_json::json;

use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobs::lists::items;
use crate::{Context, General, ask, outln};

/// Number of evaluations in one request.
const PAGE: &str = "100";

/// Arguments of `eval delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Expression that selects the evaluations.
    #[arg(long)]
    filter: Option<String>,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Full id of the evaluation.
    eval: Option<String>,
}

impl crate::Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let filter = self.filter.as_deref().filter(|filter| !filter.is_empty());
        if self.eval.is_some() == filter.is_some() {
            let words = "Error validating command args and flags: evaluation ID or filter flag required";
            return Err(Failure::new(words));
        }
        let client = self.general.client()?;
        let config = client.get("/v1/operator/scheduler/configuration").await;
        let config = config.tried("Error querying scheduler configuration")?;
        if config["SchedulerConfig"]["PauseEvalBroker"] != true {
            outln!(
                "To delete evaluations you must first pause the eval broker by running \"operator scheduler set-config -pause-eval-broker=true\"\n\
                 After the deletion is complete, unpause the eval broker by running \"operator scheduler set-config -pause-eval-broker=false\""
            );
            return Err(Failure::new("Eval broker is not paused"));
        }
        match (&self.eval, filter) {
            (Some(eval), _) => self.one(&client, eval).await,
            (None, Some(filter)) => self.matching(&client, filter).await,
            (None, None) => Ok(Exit::FAILED),
        }
    }
}

impl Delete {
    async fn one(&self, client: &Client, eval: &str) -> Outcome {
        client.delete_with("/v1/evaluations", &json!({"EvalIDs": [eval]})).await.tried("Error deleting evaluation")?;
        outln!("Successfully deleted 1 evaluation");
        Ok(Exit::DONE)
    }

    async fn matching(&self, client: &Client, filter: &str) -> Outcome {
        let count = client.get(&with_query("/v1/evaluations/count", &[("filter", filter)])).await;
        let count = count.tried("Error counting evaluations")?["Count"].as_u64().unwrap_or(0);
        if count == 0 {
            outln!("No evaluations were deleted");
            return Ok(Exit::DONE);
        }
        if !self.yes {
            let question = format!("Are you sure you want to delete {count} evals?");
            if let Some(exit) = ask::confirm(&question, "Cancelling eval deletion")? {
                return Ok(exit);
            }
        }
        let mut deleted = 0;
        loop {
            let path = with_query("/v1/evaluations", &[("filter", filter), ("per_page", PAGE)]);
            let page = client.get(&path).await.tried("Error listing evaluations")?;
            let ids: Vec<&str> = items(&page).iter().map(|eval| text(&eval["ID"])).collect();
            if ids.is_empty() {
                break;
            }
            deleted += ids.len();
            client
                .delete_with("/v1/evaluations", &json!({"EvalIDs": ids}))
                .await
                .tried("Error deleting evaluations")?;
        }
        let plural = if deleted == 1 { "" } else { "s" };
        outln!("Successfully deleted {deleted} evaluation{plural}");
        Ok(Exit::DONE)
    }
}
