//! `what-if`: asks what would become of jobs and nodes after hypothetical changes, and prints it.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::General;
use crate::client::text;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: General,
    /// File with the question as JSON, `{"Changes": [..]}`; `-` is standard input.
    file: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

async fn run(options: Options) -> anyhow::Result<()> {
    let answer = options.target.client()?.put("/v1/what-if", &question(&options.file)?).await?;
    if options.json {
        crate::outln!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        crate::out::write(format_args!("{}", told(&answer)));
    }
    Ok(())
}

fn question(file: &Path) -> anyhow::Result<Value> {
    let shown = file.display();
    let text = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("reading the question from standard input")?;
            text
        }
        false => std::fs::read_to_string(file).with_context(|| format!("reading the question from {shown}"))?,
    };
    serde_json::from_str(&text).with_context(|| format!("{shown} is no JSON"))
}

/// The answer as lines: each job with its allocations, then the nodes.
fn told(answer: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut lines = Vec::new();
    for job in list(&answer["Jobs"]) {
        lines.push(format!("Job {:?} in namespace {:?}", text(&job["ID"]), text(&job["Namespace"])));
        for (key, word) in [("Placed", "place"), ("Moved", "move"), ("Stopped", "stop"), ("Preempted", "preempt")] {
            lines.extend(list(&job[key]).iter().map(|alloc| format!("  {word:<8} {}", way(alloc))));
        }
        for (group, blocked) in job["Blocked"].as_object().into_iter().flatten() {
            let reasons = reasons(&blocked["Metric"]);
            lines.push(format!("  {:<8} {} of group {group:?}: {reasons}", "blocked", blocked["Queued"]));
        }
    }
    for node in list(&answer["Nodes"]) {
        lines.push(format!("Node {}: {} come, {} leave", text(&node["Name"]), node["Comes"], node["Leaves"]));
    }
    if lines.is_empty() {
        lines.push("Nothing would change.".to_owned());
    }
    lines.join("\n") + "\n"
}

fn way(alloc: &Value) -> String {
    let (from, to) = (text(&alloc["From"]), text(&alloc["To"]));
    let way = match (from.is_empty(), to.is_empty()) {
        (false, false) => format!(" from {from} to {to}"),
        (false, true) => format!(" from {from}"),
        (true, _) => format!(" on {to}"),
    };
    let reason = text(&alloc["Reason"]);
    let why = match alloc["Preempted"] == true {
        true => " (preempted)".to_owned(),
        false if reason.is_empty() => String::new(),
        false => format!(" ({reason})"),
    };
    format!("{}{way}{why}", text(&alloc["Name"]))
}

/// Exhausted dimensions and filters with their numbers of nodes.
fn reasons(metric: &Value) -> String {
    let counts = |key: &str| {
        let counts = metric[key].as_object().into_iter().flatten();
        counts.map(|(reason, nodes)| format!("{reason} on {nodes}")).collect::<Vec<_>>()
    };
    let all = [counts("DimensionExhausted"), counts("ConstraintFiltered")].concat();
    if all.is_empty() { "no nodes".to_owned() } else { all.join(", ") }
}

impl crate::Run for Options {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_is_printed_job_by_job() {
        let answer = json!({
            "Jobs": [{
                "ID": "web", "Namespace": "default",
                "Placed": [{"Name": "web.g[3]", "From": "", "To": "n2", "Reason": ""}],
                "Moved": [{"Name": "web.g[0]", "From": "n1", "To": "n2", "Reason": "alloc is being migrated"}],
                "Preempted": [{"Name": "web.g[1]", "From": "n2", "To": "", "Preempted": true, "Reason": "by x"}],
                "Blocked": {"g": {"Queued": 2, "Metric": {"DimensionExhausted": {"cpu": 3}}}},
            }],
            "Nodes": [{"Name": "n2", "Comes": 2, "Leaves": 1}],
        });
        assert_eq!(
            told(&answer),
            "Job \"web\" in namespace \"default\"\n\
             \x20 place    web.g[3] on n2\n\
             \x20 move     web.g[0] from n1 to n2 (alloc is being migrated)\n\
             \x20 preempt  web.g[1] from n2 (preempted)\n\
             \x20 blocked  2 of group \"g\": cpu on 3\n\
             Node n2: 2 come, 1 leave\n"
        );
        assert_eq!(told(&json!({})), "Nothing would change.\n");
    }
}
