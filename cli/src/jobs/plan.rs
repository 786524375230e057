//! `job plan`: a dry run of a job file.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use songline_model::quote;

use super::diff::{self, Shown};
use super::lists::items;
use super::run::{Foreign, client_of, next_launch, route};
use crate::client::{Client, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobfile::{JobFile, ReadJob};
use crate::layout::list;
use crate::out::{Colour, paint};
use crate::{Context, General, ids, monitor, outln, values};

/// Exit code of any error.
pub(super) const FAILED: Exit = Exit::code(255);
/// Number of preempted allocations, or of their jobs, from which they are counted instead of listed.
const PREEMPTED_LISTED_MAX: usize = 10;

/// Arguments of `job plan`.
#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    file: JobFile,
    /// Show what differs from the running job.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    diff: bool,
    /// Override policies that may be overridden.
    #[arg(long)]
    policy_override: bool,
    #[command(flatten)]
    foreign: Foreign,
    /// Show unchanged parts, too.
    #[arg(long)]
    verbose: bool,
    /// The job file, `-` for standard input, or a URL.
    path: String,
}

impl crate::Run for Plan {
    async fn run(self, context: &Context) -> Outcome {
        self.plan(context).await.map_err(|failure| failure.with_exit(FAILED))
    }
}

impl Plan {
    async fn plan(&self, context: &Context) -> Outcome {
        let ReadJob { mut job, .. } = self.file.read(&self.path).await?;
        self.foreign.put_into(&mut job);
        let client = client_of(&self.general, &job)?;
        let body = json!({ "Job": job, "Diff": true, "PolicyOverride": self.policy_override });
        let regions = items(&job["Multiregion"]["Regions"]);
        if regions.is_empty() {
            let answer = self.part(&client, &body).await?;
            self.how_to_run(context, &answer);
            return Ok(exit(&answer));
        }
        let mut worst = Exit::DONE;
        for region in regions.iter().map(|region| text(&region["Name"])) {
            outln!("{}", crate::layout::heading(&format!("Region: {region:?}")));
            let answer = self.part(&client.with_scope(Some(region), None), &body).await?;
            if worst == Exit::DONE {
                worst = exit(&answer);
            }
        }
        Ok(worst)
    }

    /// Plans the job in the client's region, and prints what would happen there.
    async fn part(&self, client: &Client, body: &Value) -> Result<Value, Failure> {
        let job = &body["Job"];
        let answer = client.put(&route(text(&job["ID"]), "/plan"), body).await.tried("Error during plan")?;
        if self.diff {
            outln!("{}\n", diff::job(&answer["Diff"], Shown { verbose: self.verbose, annotations: true }));
        }
        dry_run(&answer, job);
        outln!();
        monitor::warnings(&answer);
        preemptions(items(&answer["Annotations"]["PreemptedAllocs"]));
        Ok(answer)
    }

    /// The command that registers the job as long as nobody else changes it.
    fn how_to_run(&self, context: &Context, answer: &Value) {
        let index = answer["JobModifyIndex"].as_u64().unwrap_or(0);
        let mut flags = String::new();
        self.file.var.iter().for_each(|pair| flags.push_str(&format!("-var={} ", quote(pair))));
        self.file.var_file.iter().for_each(|file| flags.push_str(&format!("-var-file={} ", quote(file))));
        // `job run` reads the namespace of the file or the environment itself.
        if let Some(namespace) = self.general.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
            flags.push_str(&format!("-namespace={} ", quote(namespace)));
        }
        outln!("Job Modify Index: {index}");
        outln!("To submit the job with version verification run:\n");
        outln!("{} job run -check-index {index} {flags}{}\n", context.program, self.path);
        outln!(
            "When running the job with the check-index flag, the job will only be run if the\n\
             job modify index given matches the server-side version. If the index has\n\
             changed, another user has modified the job and the plan's results are\n\
             potentially invalid."
        );
    }
}

/// 1 when the job differs and allocations would be created or destroyed.
fn exit(answer: &Value) -> Exit {
    if text(&answer["Diff"]["Type"]) == "None" {
        return Exit::DONE;
    }
    let updates = answer["Annotations"]["DesiredTGUpdates"].as_object().into_iter().flatten();
    let counts = ["Stop", "Place", "Migrate", "DestructiveUpdate", "Canary"];
    let changes =
        updates.map(|(_, group)| counts.iter().filter_map(|name| group[*name].as_u64()).sum::<u64>()).sum::<u64>();
    if changes > 0 { Exit::FAILED } else { Exit::DONE }
}

fn dry_run(answer: &Value, job: &Value) {
    outln!("{}", crate::layout::heading("Scheduler dry-run:"));
    let failed: BTreeMap<&String, &Value> = answer["FailedTGAllocs"].as_object().into_iter().flatten().collect();
    if failed.is_empty() {
        outln!("{}", paint(Colour::Green, "- All tasks successfully allocated."));
    } else {
        let scope = if text(&job["Type"]) == "system" { "allocations on all nodes." } else { "allocations." };
        outln!("{}", paint(Colour::Yellow, &format!("- WARNING: Failed to place all {scope}")));
        let shown: Vec<String> = failed
            .iter()
            .map(|(name, metric)| {
                let count = metric["CoalescedFailures"].as_u64().unwrap_or(0) + 1;
                let plural = if count > 1 { "s" } else { "" };
                let lines = monitor::metric_lines(metric, false, "    ");
                format!("  Task Group \"{name}\" (failed to place {count} allocation{plural}):\n{lines}")
            })
            .collect();
        outln!("{}", shown.join("\n\n"));
    }
    if let Some(next) = answer["CreatedEvals"][0]["Wait"].as_i64().filter(|wait| *wait > 0) {
        let wait = values::go_duration(next);
        outln!("{}", paint(Colour::Green, &format!("- Rolling update, next evaluation will be in {wait}.")));
    }
    let launch = job["Periodic"].is_object().then(|| next_launch(job)).flatten();
    if let Some(launch) = launch {
        let line = format!("- If submitted now, next periodic launch would be at {launch}.");
        outln!("{}", paint(Colour::Green, &line));
    }
}

/// Allocations that would give way.
fn preemptions(allocs: &[Value]) {
    if allocs.is_empty() {
        return;
    }
    let name = |alloc: &Value, key: &str| text(&alloc[key]).to_owned();
    outln!("{}\n", crate::layout::heading("Preemptions:"));
    if allocs.len() < PREEMPTED_LISTED_MAX {
        let row =
            |alloc: &Value| vec![ids::shown(text(&alloc["ID"]), false), name(alloc, "JobID"), name(alloc, "TaskGroup")];
        let rows: Vec<_> = allocs.iter().map(row).collect();
        outln!("{}\n", list(&["Alloc ID", "Job ID", "Task Group"], &rows));
        return;
    }
    let mut jobs: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for alloc in allocs {
        *jobs.entry((name(alloc, "JobID"), name(alloc, "Namespace"), name(alloc, "JobType"))).or_default() += 1;
    }
    if jobs.len() < PREEMPTED_LISTED_MAX {
        let rows: Vec<_> = jobs
            .into_iter()
            .map(|((job, namespace, kind), count)| vec![job, namespace, kind, count.to_string()])
            .collect();
        outln!("{}\n", list(&["Job ID", "Namespace", "Job Type", "Preemptions"], &rows));
        return;
    }
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    jobs.into_iter().for_each(|((.., kind), count)| *kinds.entry(kind).or_default() += count);
    let rows: Vec<_> = kinds.into_iter().map(|(kind, count)| vec![kind, count.to_string()]).collect();
    outln!("{}\n", list(&["Job Type", "Preemptions"], &rows));
}
