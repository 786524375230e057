//! `alloc stop`, `alloc restart`, `alloc signal`, `alloc checks`.

use clap::Args;
use serde_json::{Value, json};

use super::find::{by_id, known_task};
use crate::client::text;
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::card;
use crate::{Context, General, monitor, outln, values};

/// Arguments of `alloc stop`.
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
    /// Ignore the delays between deregistration of services and the stop of tasks.
    #[arg(long)]
    no_shutdown_delay: bool,
    /// Id of the allocation, or its beginning.
    alloc: String,
}

impl crate::Run for Stop {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let alloc = by_id(&client, &self.alloc).await?;
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let delay = if self.no_shutdown_delay { "?no_shutdown_delay=true" } else { "" };
        let path = format!("/v1/allocation/{}/stop{delay}", text(&alloc["ID"]));
        let answer = client.put(&path, &Value::Null).await.tried("Error stopping allocation")?;
        let eval = text(&answer["EvalID"]);
        if self.detach {
            outln!("{eval}");
            return Ok(Exit::DONE);
        }
        monitor::evaluation(&client, eval, self.verbose).await
    }
}

/// Arguments of `alloc restart`.
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
    /// The task, by default all that run.
    #[arg(long = "task")]
    task_flag: Option<String>,
    /// Id of the allocation, or its beginning.
    alloc: String,
    /// The task, by default all that run.
    task: Option<String>,
}

impl crate::Run for Restart {
    async fn run(self, _: &Context) -> Outcome {
        let task = self.task_flag.or(self.task).unwrap_or_default();
        if self.all_tasks && !task.is_empty() {
            return Err(Failure::new("The -all-tasks option is not allowed when restarting a specific task."));
        }
        let client = self.general.client()?;
        let alloc = by_id(&client, &self.alloc).await?;
        if !task.is_empty() {
            known_task(&alloc, &task)?;
        }
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let path = format!("/v1/client/allocation/{}/restart", text(&alloc["ID"]));
        let body = json!({"TaskName": task, "AllTasks": self.all_tasks});
        let restarted = client.put(&path, &body).await;
        restarted.map_err(|error| Failure::new(format!("Failed to restart allocation:\n\n{error}")))?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `alloc signal`.
#[derive(Args)]
pub(crate) struct Signal {
    #[command(flatten)]
    general: General,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// The signal.
    #[arg(long = "s", default_value = "SIGKILL")]
    signal: String,
    /// The task, by default all.
    #[arg(long = "task")]
    task_flag: Option<String>,
    /// Id of the allocation, or its beginning.
    alloc: String,
    /// The task, by default all.
    task: Option<String>,
}

impl crate::Run for Signal {
    async fn run(self, _: &Context) -> Outcome {
        let task = self.task_flag.or(self.task).unwrap_or_default();
        let client = self.general.client()?;
        let alloc = by_id(&client, &self.alloc).await?;
        if !task.is_empty() {
            known_task(&alloc, &task)?;
        }
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let path = format!("/v1/client/allocation/{}/signal", text(&alloc["ID"]));
        let body = json!({"Task": task, "Signal": self.signal});
        client.put(&path, &body).await.tried("Error signalling allocation")?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `alloc checks`.
#[derive(Args)]
pub(crate) struct Checks {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Id of the allocation, or its beginning.
    alloc: String,
}

impl crate::Run for Checks {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let alloc = by_id(&client, &self.alloc).await?;
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let path = format!("/v1/client/allocation/{}/checks", text(&alloc["ID"]));
        let answer = client.get(&path).await.tried("Error querying allocation")?;
        let mut checks: Vec<&Value> = answer.as_object().into_iter().flatten().map(|(_, check)| check).collect();
        checks.sort_by_key(|check| (text(&check["Service"]), text(&check["Check"])));
        if self.format.print(&data(&answer, self.format.json))? {
            return Ok(Exit::DONE);
        }
        outln!("Status of {} Nomad Service Checks\n", checks.len());
        for check in checks {
            outln!("{}\n", card(&pairs(check)));
        }
        Ok(Exit::DONE)
    }
}

/// The checks by their ids. Without any, JSON is null as in the reference's client; a template gets an empty map.
fn data(answer: &Value, is_json: bool) -> Value {
    match answer.as_object() {
        Some(checks) if !checks.is_empty() => answer.clone(),
        _ if is_json => Value::Null,
        _ => json!({}),
    }
}

fn pairs(check: &Value) -> Vec<(&'static str, String)> {
    let word = |key: &str| text(&check[key]).to_owned();
    let task = if text(&check["Task"]).is_empty() { "(group)".to_owned() } else { word("Task") };
    let mut pairs = vec![
        ("ID", word("ID")),
        ("Name", word("Check")),
        ("Group", word("Group")),
        ("Task", task),
        ("Service", word("Service")),
        ("Status", word("Status")),
    ];
    if let Some(code) = check["StatusCode"].as_i64().filter(|code| *code > 0) {
        pairs.push(("StatusCode", code.to_string()));
    }
    let at = check["Timestamp"].as_i64().unwrap_or(0).saturating_mul(1_000_000_000);
    pairs.extend([("Mode", word("Mode")), ("Timestamp", values::time(at)), ("Output", word("Output"))]);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_as_data_are_a_map() {
        let checks = json!({ "b": { "Check": "c2" }, "a": { "Check": "c1" } });
        assert_eq!(data(&checks, true), checks);
        for none in [Value::Null, json!({})] {
            assert_eq!(data(&none, true), Value::Null);
            assert_eq!(data(&none, false), json!({}));
        }
    }
}
