//! `job run`, `job status`, `job stop`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use serde_json::Value;

use crate::client::{Client, short, text};
use crate::{General, jobfile, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Register a job file and wait for its evaluation.
    Run {
        #[command(flatten)]
        target: General,
        /// Do not wait for the evaluation.
        #[arg(long)]
        detach: bool,
        /// The job file, HCL or JSON.
        file: PathBuf,
    },
    /// Show all jobs, or one.
    Status {
        #[command(flatten)]
        target: General,
        /// The job's id.
        job: Option<String>,
    },
    /// Stop a job.
    Stop {
        #[command(flatten)]
        target: General,
        /// Forget it, too.
        #[arg(long)]
        purge: bool,
        /// The job's id.
        job: String,
    },
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run { target, detach, file } => {
            let api = target.client()?;
            let answer = api.put("/v1/jobs", &jobfile::registration(&file.to_string_lossy())?).await?;
            if !text(&answer["Warnings"]).is_empty() {
                crate::outln!("{}", text(&answer["Warnings"]));
            }
            finish(&api, &answer, detach).await
        }
        Command::Status { target, job: None } => list(&target.client()?).await,
        Command::Status { target, job: Some(id) } => show(&target.client()?, &id).await,
        Command::Stop { target, purge, job } => {
            let api = target.client()?;
            let answer = api.delete(&format!("/v1/job/{job}?purge={purge}")).await?;
            finish(&api, &answer, false).await
        }
    }
}

/// Waits until the evaluation of a write is over, and says what it could not do.
async fn finish(api: &Client, answer: &Value, detach: bool) -> anyhow::Result<()> {
    let id = text(&answer["EvalID"]);
    if id.is_empty() {
        crate::outln!("No evaluation was needed.");
        return Ok(());
    }
    crate::outln!("Evaluation {} created at index {}", short(&answer["EvalID"]), answer["EvalCreateIndex"]);
    if detach {
        return Ok(());
    }
    loop {
        let eval = api.get(&format!("/v1/evaluation/{id}")).await?;
        let status = text(&eval["Status"]);
        if matches!(status, "complete" | "failed" | "canceled") {
            crate::outln!(
                "Evaluation {} finished with status \"{status}\" {}",
                short(&eval["ID"]),
                text(&eval["StatusDescription"])
            );
            for (group, metric) in eval["FailedTGAllocs"].as_object().into_iter().flatten() {
                crate::outln!("Group \"{group}\" was not placed in full:");
                explain(metric);
            }
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn explain(metric: &Value) {
    crate::outln!(
        "  * {} nodes looked at, {} filtered, {} exhausted",
        metric["NodesEvaluated"],
        metric["NodesFiltered"],
        metric["NodesExhausted"]
    );
    for key in ["ConstraintFiltered", "DimensionExhausted"] {
        for (reason, nodes) in metric[key].as_object().into_iter().flatten() {
            crate::outln!("  * {reason}: {nodes} nodes");
        }
    }
}

async fn list(api: &Client) -> anyhow::Result<()> {
    let jobs = api.get("/v1/jobs").await?;
    let rows: Vec<_> = jobs.as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        crate::outln!("No running jobs");
    } else {
        table::print(&["ID", "Type", "Priority", "Status"], &rows);
    }
    Ok(())
}

fn row(job: &Value) -> Vec<String> {
    let status = if job["Stop"] == true {
        format!("{} (stopped)", text(&job["Status"]))
    } else {
        text(&job["Status"]).to_owned()
    };
    vec![text(&job["ID"]).to_owned(), text(&job["Type"]).to_owned(), job["Priority"].to_string(), status]
}

async fn show(api: &Client, id: &str) -> anyhow::Result<()> {
    let job = api.get(&format!("/v1/job/{id}")).await?;
    table::pairs(&[
        ("ID", text(&job["ID"]).to_owned()),
        ("Name", text(&job["Name"]).to_owned()),
        ("Type", text(&job["Type"]).to_owned()),
        ("Priority", job["Priority"].to_string()),
        ("Version", job["Version"].to_string()),
        ("Status", text(&job["Status"]).to_owned()),
    ]);
    let deployment = api.get(&format!("/v1/job/{id}/deployment")).await?;
    if !deployment.is_null() {
        crate::outln!(
            "\nLatest deployment {}: {} ({})",
            short(&deployment["ID"]),
            text(&deployment["Status"]),
            text(&deployment["StatusDescription"])
        );
    }
    crate::outln!("\nAllocations");
    let allocs = api.get(&format!("/v1/job/{id}/allocations")).await?;
    let rows: Vec<_> = allocs.as_array().into_iter().flatten().map(alloc_row).collect();
    table::print(&["ID", "Node", "Task Group", "Version", "Desired", "Status"], &rows);
    Ok(())
}

fn alloc_row(alloc: &Value) -> Vec<String> {
    vec![
        short(&alloc["ID"]).to_owned(),
        short(&alloc["NodeID"]).to_owned(),
        text(&alloc["TaskGroup"]).to_owned(),
        alloc["JobVersion"].to_string(),
        text(&alloc["DesiredStatus"]).to_owned(),
        text(&alloc["ClientStatus"]).to_owned(),
    ]
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
