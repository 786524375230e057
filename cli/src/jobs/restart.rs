//! `job restart`: the allocations of a job, one batch after another.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::lists::items;
use super::run::route;
use super::stop::found;
use crate::client::{Client, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::monitor::{detail, step};
use crate::{Context, General, ids, outln};

/// Interval of looks at a replacement.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Arguments of `job restart`.
#[derive(Args)]
pub(crate) struct Restart {
    #[command(flatten)]
    general: General,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Restart dead tasks, too.
    #[arg(long)]
    all_tasks: bool,
    /// Number of allocations that are restarted at once, or a percentage of them.
    #[arg(long, default_value = "1")]
    batch_size: String,
    /// Time between batches, or `ask`.
    #[arg(long, default_value = "0s")]
    batch_wait: String,
    /// Group to restart; may be given several times. By default all.
    #[arg(long)]
    group: Vec<String>,
    /// Task to restart; may be given several times. By default all that run.
    #[arg(long)]
    task: Vec<String>,
    /// Ignore the delays between deregistration of services and the stop of tasks.
    #[arg(long)]
    no_shutdown_delay: bool,
    /// `ask` or `fail`.
    #[arg(long, default_value = "ask")]
    on_error: String,
    /// Stop the allocations, so that they are placed anew.
    #[arg(long)]
    reschedule: bool,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Id of the job, or its beginning.
    job: String,
}

/// Choices that the flags make.
struct Plan {
    /// Size of a batch: a number, or a percentage.
    size: (u64, bool),
    wait: Option<Duration>,
}

impl crate::Run for Restart {
    async fn run(self, _: &Context) -> Outcome {
        let plan = self.plan()?;
        let (client, id) = found(&self.general, &self.job).await?;
        let all = client.get(&route(&id, "/allocations")).await.tried("Error retrieving allocations for job")?;
        let chosen: Vec<&Value> = items(&all).iter().filter(|alloc| self.wants(alloc)).collect();
        if chosen.is_empty() {
            outln!("No allocations to restart");
            return Ok(Exit::DONE);
        }
        let plural = if chosen.len() == 1 { "" } else { "s" };
        step(&format!("Restarting {} allocation{plural}", chosen.len()));
        let (number, is_percent) = plan.size;
        let size = if is_percent { (chosen.len() as u64 * number).div_ceil(100) } else { number };
        let size = usize::try_from(size.max(1)).unwrap_or(usize::MAX);
        let mut failures = Vec::new();
        for (at, batch) in chosen.chunks(size).enumerate() {
            if at > 0
                && let Some(wait) = plan.wait.filter(|wait| !wait.is_zero())
            {
                let shown = crate::values::go_duration(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX));
                step(&format!("Waiting {shown} before restarting the next batch"));
                tokio::time::sleep(wait).await;
            }
            if size > 1 {
                step(&format!("Restarting {} batch of {} allocations", ordinal(at + 1), batch.len()));
            }
            for alloc in batch {
                if let Err(failure) = self.restart(&client, alloc).await {
                    failures.push(failure.message().to_owned());
                }
            }
            if !failures.is_empty() {
                return Err(listed(&failures));
            }
        }
        step("Job restart finished");
        outln!("\nJob restarted successfully!");
        Ok(Exit::DONE)
    }
}

impl Restart {
    fn plan(&self) -> Result<Plan, Failure> {
        let typed = self.batch_size.as_str();
        let (digits, is_percent) = typed.strip_suffix('%').map_or((typed, false), |digits| (digits, true));
        let invalid =
            |flag: &str, value: &str, why: &str| Failure::new(format!("Invalid -{flag} value {value:?}: {why}"));
        let number: u64 = digits
            .parse()
            .map_err(|error: std::num::ParseIntError| invalid("batch-size", typed, &error.to_string()))?;
        if number == 0 {
            return Err(invalid("batch-size", typed, "value must be greater than zero"));
        }
        let wait = match self.batch_wait.as_str() {
            "ask" => None,
            text => {
                let nanos =
                    songline_lang::duration::parse(text).map_err(|_| invalid("batch-wait", text, "no duration"))?;
                Some(Duration::from_nanos(nanos.unsigned_abs()))
            }
        };
        let can_ask = std::io::stdin().is_terminal() && !self.yes;
        match self.on_error.as_str() {
            "fail" => {}
            "ask" if self.yes || can_ask => {}
            "ask" => return Err(invalid("on-error", "ask", "there is no terminal to ask; use -yes or -on-error=fail")),
            other => return Err(invalid("on-error", other, "it must be \"ask\" or \"fail\"")),
        }
        if wait.is_none() && !can_ask {
            return Err(invalid("batch-wait", "ask", "there is no terminal to ask; name a duration"));
        }
        for (set, name) in [(self.reschedule, "reschedule"), (self.all_tasks, "all-tasks")] {
            if set && !self.task.is_empty() {
                return Err(Failure::new(format!("The -{name} option cannot be used with -task")));
            }
        }
        Ok(Plan { size: (number, is_percent), wait })
    }

    /// Whether an allocation runs, is of a chosen group and has a chosen task.
    fn wants(&self, alloc: &Value) -> bool {
        let group = text(&alloc["TaskGroup"]);
        let has_task = |name: &String| alloc["TaskStates"].get(name).is_some();
        text(&alloc["ClientStatus"]) == "running"
            && text(&alloc["DesiredStatus"]) == "run"
            && (self.group.is_empty() || self.group.iter().any(|wanted| wanted == group))
            && (self.task.is_empty() || self.task.iter().any(has_task))
    }

    async fn restart(&self, client: &Client, alloc: &Value) -> Result<(), Failure> {
        let id = text(&alloc["ID"]);
        let (shown, group) = (ids::shown(id, self.verbose), text(&alloc["TaskGroup"]));
        if self.reschedule {
            detail(&format!("Rescheduling allocation \"{shown}\" for group \"{group}\""));
            return self.replace(client, id).await;
        }
        let path = format!("/v1/client/allocation/{id}/restart");
        let tried = format!("Failed to restart allocation \"{shown}\"");
        if !self.task.is_empty() {
            for task in &self.task {
                detail(&format!("Restarting task \"{task}\" in allocation \"{shown}\" for group \"{group}\""));
                client.put(&path, &json!({"TaskName": task})).await.tried(&tried)?;
            }
            return Ok(());
        }
        let which = if self.all_tasks { "all" } else { "running" };
        detail(&format!("Restarting {which} tasks in allocation \"{shown}\" for group \"{group}\""));
        client.put(&path, &json!({"AllTasks": self.all_tasks})).await.tried(&tried)?;
        Ok(())
    }

    /// Stops an allocation and waits until its replacement runs.
    async fn replace(&self, client: &Client, id: &str) -> Result<(), Failure> {
        let delay = if self.no_shutdown_delay { "?no_shutdown_delay=true" } else { "" };
        let shown = ids::shown(id, self.verbose);
        let tried = format!("Failed to reschedule allocation \"{shown}\"");
        client.put(&format!("/v1/allocation/{id}/stop{delay}"), &Value::Null).await.tried(&tried)?;
        loop {
            let alloc = client.get(&format!("/v1/allocation/{id}")).await.tried(&tried)?;
            let next = text(&alloc["NextAllocation"]);
            if !next.is_empty() {
                let next = client.get(&format!("/v1/allocation/{next}")).await.tried(&tried)?;
                match text(&next["ClientStatus"]) {
                    "running" => return Ok(()),
                    "failed" | "lost" => return Err(Failure::of(&tried, "the replacement failed")),
                    _ => {}
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn listed(failures: &[String]) -> Failure {
    let distinct: BTreeSet<&String> = failures.iter().collect();
    let lines: String = distinct.iter().map(|line| format!("\t* {line}\n")).collect();
    let plural = if distinct.len() == 1 { "" } else { "s" };
    Failure::new(format!("{} error{plural} occurred while restarting job:\n{lines}", distinct.len()))
}

/// `1st`, `2nd`, `11th`.
fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}
