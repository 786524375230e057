//! `job stop`.

use clap::Args;
use songline_model::quote;

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
        let mut first = First(Exit::DONE);
        let mut chosen = Vec::new();
        for typed in &self.jobs {
            match self.choose(&client, typed).await {
                Ok(Ok(job)) => chosen.push(job),
                Ok(Err(exit)) => first.take(Ok(exit)),
                Err(failure) => first.take(Err(failure)),
            }
        }
        // All jobs stop before the first of them is waited for.
        let mut asked = Vec::new();
        for job in &chosen {
            match self.stop(job).await {
                Ok(eval) if eval.is_empty() => {}
                Ok(eval) if self.detach => outln!("{eval}"),
                Ok(eval) => asked.push((&job.client, eval)),
                Err(failure) => first.take(Err(failure)),
            }
        }
        for outcome in monitor::evaluations(&asked, self.verbose).await {
            first.take(outcome);
        }
        Ok(first.0)
    }
}

/// The first exit code that is not 0. Failures are printed as they come.
struct First(Exit);

impl First {
    fn take(&mut self, outcome: Outcome) {
        let exit = outcome.unwrap_or_else(|failure| {
            out::failure(&failure);
            Exit::FAILED
        });
        if self.0 == Exit::DONE {
            self.0 = exit;
        }
    }
}

/// A job to stop.
struct Chosen {
    id: String,
    /// A client of the job's namespace.
    client: Client,
}

impl Stop {
    /// The job that was typed; an exit code if it is not to be stopped after all.
    async fn choose(&self, client: &Client, typed: &str) -> Result<Result<Chosen, Exit>, Failure> {
        let (id, namespace) = ids::job(client, typed, jobs).await?;
        if !self.yes && id != typed {
            let question = format!("Are you sure you want to stop job {}?", quote(&id));
            if let Some(exit) = ask::confirm(&question, "Cancelling job stop")? {
                return Ok(Err(exit));
            }
        }
        Ok(Ok(Chosen { id, client: client.with_scope(None, Some(&namespace)) }))
    }

    /// Stops a job. Returns the evaluation, empty if none was made.
    async fn stop(&self, job: &Chosen) -> Result<String, Failure> {
        let flag = |set: bool| if set { "true" } else { "" };
        let priority = self.eval_priority.map(|priority| priority.to_string()).unwrap_or_default();
        let path = with_query(
            &route(&job.id, ""),
            &[
                ("purge", flag(self.purge)),
                ("global", flag(self.global)),
                ("no_shutdown_delay", flag(self.no_shutdown_delay)),
                ("eval_priority", &priority),
            ],
        );
        let tried = format!("Error deregistering job with id {} err", job.id);
        let answer = job.client.delete(&path).await.tried(&tried)?;
        Ok(text(&answer["EvalID"]).to_owned())
    }
}

/// The job that was typed, and a client of its namespace.
pub(super) async fn found(general: &General, typed: &str) -> Result<(Client, String), Failure> {
    let client = general.client()?;
    let (id, namespace) = ids::job(&client, typed, jobs).await?;
    Ok((client.with_scope(None, Some(&namespace)), id))
}
