//! `job restart`: the allocations of a job, one batch after another.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use songline_model::quote;

use super::lists::items;
use super::run::route;
use super::stop::found;
use crate::ask::{self, Next};
use crate::client::{Client, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::monitor::{detail, step};
use crate::{Context, General, ids, out, outln};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// Size of a batch: a number, or a percentage.
    size: (u64, bool),
    pause: Pause,
    /// Whether to ask after a batch that failed; otherwise its failure ends the command.
    asks_on_error: bool,
}

/// The time between two batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// The user says when the next batch starts.
    Ask,
    For(Duration),
}

impl Plan {
    /// Number of allocations in a batch, of so many.
    fn batch_of(&self, all: usize) -> usize {
        let (number, is_percent) = self.size;
        let size = if is_percent { (all as u64 * number).div_ceil(100) } else { number };
        usize::try_from(size.max(1)).unwrap_or(usize::MAX)
    }

    /// Waits until the next batch may start, and asks before that where the user wants it. A duration as the answer is
    /// the pause before all batches that are left. `false`: no batch is to start any more.
    async fn may_go_on(&mut self, has_failed: bool) -> Result<bool, Failure> {
        if has_failed || self.pause == Pause::Ask {
            match ask::next("Proceed with the next batch?")? {
                Next::Never => return Ok(false),
                Next::Now => {}
                Next::After(wait) => self.pause = Pause::For(wait),
            }
        }
        if let Pause::For(wait) = self.pause
            && !wait.is_zero()
        {
            let shown = crate::values::go_duration(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX));
            step(&format!("Waiting {shown} before restarting the next batch"));
            tokio::time::sleep(wait).await;
        }
        Ok(true)
    }
}

impl crate::Run for Restart {
    async fn run(self, _: &Context) -> Outcome {
        let plan = self.plan(std::io::stdin().is_terminal())?;
        let (client, id) = found(&self.general, &self.job).await?;
        let all = client.get(&route(&id, "/allocations")).await.tried("Error retrieving allocations for job")?;
        let chosen: Vec<&Value> = items(&all).iter().filter(|alloc| self.wants(alloc)).collect();
        if chosen.is_empty() {
            outln!("No allocations to restart");
            return Ok(Exit::DONE);
        }
        let plural = if chosen.len() == 1 { "" } else { "s" };
        step(&format!("Restarting {} allocation{plural}", chosen.len()));
        self.restart_batches(&client, &chosen, plan).await
    }
}

impl Restart {
    async fn restart_batches(&self, client: &Client, chosen: &[&Value], mut plan: Plan) -> Outcome {
        let batches: Vec<&[&Value]> = chosen.chunks(plan.batch_of(chosen.len())).collect();
        let (mut has_failed, mut any_failed) = (false, false);
        for (at, batch) in batches.iter().enumerate() {
            if at > 0 && !plan.may_go_on(has_failed).await? {
                outln!("Cancelling job restart");
                return Ok(if any_failed { Exit::FAILED } else { Exit::DONE });
            }
            if plan.batch_of(chosen.len()) > 1 {
                step(&format!("Restarting {} batch of {} allocations", ordinal(at + 1), batch.len()));
            }
            let failures = self.restart_all(client, batch).await;
            has_failed = !failures.is_empty();
            any_failed |= has_failed;
            if has_failed {
                let failure = listed(&failures);
                if !plan.asks_on_error || at + 1 == batches.len() {
                    return Err(failure);
                }
                out::failure(&failure);
            }
        }
        if any_failed {
            step("Job restart finished with errors");
            return Ok(Exit::FAILED);
        }
        step("Job restart finished");
        outln!("\nJob restarted successfully!");
        Ok(Exit::DONE)
    }

    /// The choices that the flags make. Questions need a terminal.
    fn plan(&self, is_terminal: bool) -> Result<Plan, Failure> {
        let typed = self.batch_size.as_str();
        let (digits, is_percent) = typed.strip_suffix('%').map_or((typed, false), |digits| (digits, true));
        let invalid =
            |flag: &str, value: &str, why: &str| Failure::new(format!("Invalid -{flag} value {}: {why}", quote(value)));
        let number: u64 = digits
            .parse()
            .map_err(|error: std::num::ParseIntError| invalid("batch-size", typed, &error.to_string()))?;
        if number == 0 {
            return Err(invalid("batch-size", typed, "value must be greater than zero"));
        }
        let pause = match self.batch_wait.as_str() {
            // The questions are answered by -yes in advance.
            "ask" if self.yes => Pause::For(Duration::ZERO),
            "ask" if is_terminal => Pause::Ask,
            "ask" => return Err(invalid("batch-wait", "ask", "there is no terminal to ask; use -yes or a duration")),
            text => {
                let nanos =
                    songline_lang::duration::parse(text).map_err(|_| invalid("batch-wait", text, "no duration"))?;
                Pause::For(Duration::from_nanos(nanos.unsigned_abs()))
            }
        };
        let asks_on_error = match self.on_error.as_str() {
            "fail" => false,
            "ask" if self.yes => false,
            "ask" if is_terminal => true,
            "ask" => return Err(invalid("on-error", "ask", "there is no terminal to ask; use -yes or -on-error=fail")),
            other => return Err(invalid("on-error", other, "it must be \"ask\" or \"fail\"")),
        };
        for (set, name) in [(self.reschedule, "reschedule"), (self.all_tasks, "all-tasks")] {
            if set && !self.task.is_empty() {
                return Err(Failure::new(format!("The -{name} option cannot be used with -task")));
            }
        }
        Ok(Plan { size: (number, is_percent), pause, asks_on_error })
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

    /// Restarts the allocations of a batch. Returns the messages of those that failed.
    async fn restart_all(&self, client: &Client, batch: &[&Value]) -> Vec<String> {
        let mut failures = Vec::new();
        for alloc in batch {
            if let Err(failure) = self.restart(client, alloc).await {
                failures.push(failure.message().to_owned());
            }
        }
        failures
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

#[cfg(test)]
mod tests {
    use clap::{ArgMatches, Command, FromArgMatches};

    use super::*;

    fn plan(flags: &[&str], is_terminal: bool) -> Result<Plan, String> {
        let command = Restart::augment_args(Command::new("restart").no_binary_name(true));
        let matches: ArgMatches = command.try_get_matches_from([flags, &["web"]].concat()).expect("flags are right");
        let restart = Restart::from_arg_matches(&matches).expect("flags are right");
        restart.plan(is_terminal).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn questions_need_a_terminal_and_yes_answers_them() {
        let (none, one) = (Pause::For(Duration::ZERO), (1, false));
        let planned = |pause, asks_on_error| -> Result<Plan, String> { Ok(Plan { size: one, pause, asks_on_error }) };
        assert_eq!(plan(&[], true), planned(none, true));
        assert_eq!(plan(&["--batch-wait=ask"], true), planned(Pause::Ask, true));
        assert_eq!(plan(&["--batch-wait=ask", "--on-error=fail"], true), planned(Pause::Ask, false));
        assert_eq!(plan(&["--batch-wait=ask", "--yes"], false), planned(none, false));
        assert_eq!(plan(&["--batch-wait=ask", "--yes"], true), planned(none, false));
        let minute = Pause::For(Duration::from_secs(60));
        assert_eq!(plan(&["--batch-wait=1m", "--on-error=fail"], false), planned(minute, false));
        for flags in [&["--batch-wait=ask", "--on-error=fail"][..], &["--on-error=ask"], &[]] {
            let refused = plan(flags, false).expect_err("there is no terminal");
            assert!(refused.contains("there is no terminal to ask; use -yes or "), "{refused}");
        }
    }

    #[test]
    fn percentages_of_allocations_are_rounded_up() {
        let size = |flag: &str, all| {
            let flag = format!("--batch-size={flag}");
            plan(&[flag.as_str(), "--yes"], false).map(|plan| plan.batch_of(all))
        };
        assert_eq!(size("50%", 3), Ok(2));
        assert_eq!(size("1%", 3), Ok(1));
        assert_eq!(size("2", 3), Ok(2));
    }
}
