//! `eval list` and `eval status`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::ids::{self, Kind, shown};
use crate::jobs::lists::items;
use crate::layout::{block, list, section};
use crate::pages::Page;
use crate::values::{age, now, time, time_of};
use crate::{Context, General, monitor, outln};

/// Whether placements of an evaluation failed, in words.
fn failures(eval: &Value) -> String {
    if text(&eval["Status"]) == "blocked" {
        return "N/A - In Progress".to_owned();
    }
    eval["FailedTGAllocs"].as_object().is_some_and(|groups| !groups.is_empty()).to_string()
}

fn table(evals: &[Value], verbose: bool) -> String {
    if evals.is_empty() {
        return "No evals found".to_owned();
    }
    let row = |eval: &Value| {
        let word = |key: &str| text(&eval[key]).to_owned();
        vec![
            shown(text(&eval["ID"]), verbose),
            eval["Priority"].to_string(),
            word("TriggeredBy"),
            word("JobID"),
            word("Namespace"),
            shown(text(&eval["NodeID"]), verbose),
            word("Status"),
            failures(eval),
        ]
    };
    let headings = ["ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status", "Placement Failures"];
    list(&headings, &evals.iter().map(row).collect::<Vec<_>>())
}

fn rows(found: &[Value]) -> String {
    table(found, false)
}

/// The evaluation whose id begins so.
async fn found(client: &Client, typed: &str) -> Result<Value, Failure> {
    let kind = Kind {
        list: "/v1/evaluations",
        tried: "Error querying evaluation",
        noun: "evaluation",
        none: None,
        nouns: "evaluations",
        rows,
    };
    ids::by_uuid(client, &kind, typed).await
}

/// Arguments of `eval list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    page: Page,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Only those of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only those with this status.
    #[arg(long)]
    status: Option<String>,
}

impl crate::Run for List {
    async fn run(self, context: &Context) -> Outcome {
        self.format.wanted()?;
        let more =
            [("job", self.job.as_deref().unwrap_or_default()), ("status", self.status.as_deref().unwrap_or_default())];
        let path = self.page.path("/v1/evaluations", &more);
        let answer = self.general.client()?.ask(&path).await.tried("Error querying evaluations")?;
        if !self.format.print(&answer.value)? {
            outln!("{}", table(items(&answer.value), self.verbose));
            Page::hint(&answer, context);
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `eval status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids and times.
    #[arg(long)]
    verbose: bool,
    /// Follow the evaluation until it ends.
    #[arg(long)]
    monitor: bool,
    /// Id of the evaluation, or its beginning.
    eval: String,
}

impl crate::Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let stub = found(&client, &self.eval).await?;
        let id = text(&stub["ID"]);
        if self.monitor {
            return monitor::evaluation(&client, id, self.verbose).await;
        }
        let mut eval = client.get(&format!("/v1/evaluation/{id}")).await.tried("Error querying evaluation")?;
        // The reference's client prints these always.
        for (key, value) in [("Wait", json!(0)), ("WaitUntil", json!("0001-01-01T00:00:00Z"))] {
            if eval[key].is_null() {
                eval[key] = value;
            }
        }
        if self.format.print(&eval)? {
            return Ok(Exit::DONE);
        }
        outln!("{}", block(&self.head(&eval)));
        self.failed(&eval);
        Ok(Exit::DONE)
    }
}

impl Status {
    fn head(&self, eval: &Value) -> Vec<(&'static str, String)> {
        let word = |key: &str| text(&eval[key]).to_owned();
        let id = |key: &str| shown(text(&eval[key]), self.verbose);
        let when = |key: &str| {
            let at = eval[key].as_i64().unwrap_or(0);
            if self.verbose { time(at) } else { age(at, now()) }
        };
        let description = word("StatusDescription");
        let mut pairs = vec![
            ("ID", id("ID")),
            ("Create Time", when("CreateTime")),
            ("Modify Time", when("ModifyTime")),
            ("Status", word("Status")),
            ("Status Description", if description.is_empty() { word("Status") } else { description }),
            ("Type", word("Type")),
            ("TriggeredBy", word("TriggeredBy")),
            ("Job ID", word("JobID")),
            ("Namespace", word("Namespace")),
        ];
        match text(&eval["TriggeredBy"]) {
            "node-update" => pairs.push(("Node ID", id("NodeID"))),
            "max-plan-attempts" => pairs.push(("Previous Eval", id("PreviousEval"))),
            _ => {}
        }
        pairs.extend([("Priority", eval["Priority"].to_string()), ("Placement Failures", failures(eval))]);
        let until = time_of(text(&eval["WaitUntil"]));
        if !until.is_empty() {
            pairs.push(("Wait Until", until));
        }
        if self.verbose {
            pairs.extend([
                ("Previous Eval", word("PreviousEval")),
                ("Next Eval", word("NextEval")),
                ("Blocked Eval", word("BlockedEval")),
            ]);
        }
        pairs
    }

    fn failed(&self, eval: &Value) {
        let groups: BTreeMap<&String, &Value> = eval["FailedTGAllocs"].as_object().into_iter().flatten().collect();
        if groups.is_empty() {
            return;
        }
        let mut parts: Vec<String> = Vec::new();
        for (name, metric) in groups {
            let count = metric["CoalescedFailures"].as_u64().unwrap_or(0) + 1;
            let plural = if count > 1 { "s" } else { "" };
            let lines = monitor::metric_lines(metric, self.verbose, "  ");
            parts.push(format!("Task Group \"{name}\" (failed to place {count} allocation{plural}):\n{lines}\n"));
        }
        let blocked = text(&eval["BlockedEval"]);
        if !blocked.is_empty() {
            let blocked = shown(blocked, self.verbose);
            parts.push(format!("Evaluation \"{blocked}\" waiting for additional capacity to place remainder"));
        }
        section("Failed Placements", parts.join("\n").trim_end());
    }
}
