//! `job stop`.

use clap::Args;

use super::lists::jobs;
use super::run::route;
use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, General, ask, ids, monitor, out, outln};

/// Arguments of `job stop`.
#[derive(Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    general: General,
    /// Return at once, without following the evaluation.
    #[arg(long)]
    detach: bool,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Forget the job, too.
    #[arg(long)]
    purge: bool,
    /// Stop a job of several regions in all of them.
    #[arg(long)]
    global: bool,
    /// Ignore the delays between deregistration of services and the stop of tasks.
    #[arg(long)]
    no_shutdown_delay: bool,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Priority of the evaluation.
    #[arg(long)]
    eval_priority: Option<i64>,
    /// Ids of the jobs, or their beginnings.
    #[arg(required = true)]
    jobs: Vec<String>,
}

impl crate::Run for Stop {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let mut worst = Exit::DONE;
        for typed in &self.jobs {
            let exit = match self.stop(&client, typed).await {
                Ok(exit) => exit,
                Err(failure) => {
                    out::failure(&failure);
                    Exit::FAILED
                }
            };
            if worst == Exit::DONE {
                worst = exit;
            }
        }
        Ok(worst)
    }
}

impl Stop {
    async fn stop(&self, client: &Client, typed: &str) -> Outcome {
        let (id, namespace) = ids::job(client, typed, jobs).await?;
        let client = client.with_scope(None, Some(&namespace));
        if !self.yes && id != typed {
            let question = format!("Are you sure you want to stop job {id:?}?");
            if let Some(exit) = ask::confirm(&question, "Cancelling job stop")? {
                return Ok(exit);
            }
        }
        let flag = |set: bool| if set { "true" } else { "" };
        let priority = self.eval_priority.map(|priority| priority.to_string()).unwrap_or_default();
        let path = with_query(
            &route(&id, ""),
            &[
                ("purge", flag(self.purge)),
                ("global", flag(self.global)),
                ("no_shutdown_delay", flag(self.no_shutdown_delay)),
                ("eval_priority", &priority),
            ],
        );
        let answer = client.delete(&path).await.tried(&format!("Error deregistering job with id {id} err"))?;
        let eval = text(&answer["EvalID"]);
        if eval.is_empty() {
            return Ok(Exit::DONE);
        }
        if self.detach {
            outln!("{eval}");
            return Ok(Exit::DONE);
        }
        monitor::evaluation(&client, eval, self.verbose).await
    }
}

/// The job that was typed, and a client of its namespace.
pub(super) async fn found(general: &General, typed: &str) -> Result<(Client, String), Failure> {
    let client = general.client()?;
    let (id, namespace) = ids::job(&client, typed, jobs).await?;
    Ok((client.with_scope(None, Some(&namespace)), id))
}
