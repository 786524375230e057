//! `job status`: all jobs, or one of them.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use super::lists::{allocs, evals, items, jobs, newest_first, state};
use super::run::{next_launch, route};
use super::stop::found;
use crate::client::{Client, escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::ids::shown;
use crate::layout::{block, indented, list, section};
use crate::values::{from_now, go_duration, now, time};
use crate::{Context, General, monitor, outln};

/// Most groups whose failed placement is shown.
const FAILED_GROUPS_MAX: usize = 5;

/// Arguments of `job status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    /// Print full ids and times.
    #[arg(long)]
    verbose: bool,
    /// Show the job only.
    #[arg(long)]
    short: bool,
    /// Show evaluations, too.
    #[arg(long)]
    evals: bool,
    /// Show allocations of purged jobs of this id, too.
    #[arg(long)]
    all_allocs: bool,
    /// Id of the job, or its beginning.
    job: Option<String>,
}

impl crate::Run for Status {
    async fn run(self, context: &Context) -> Outcome {
        let Some(typed) = &self.job else { return self.all().await };
        let (client, id) = found(&self.general, typed).await?;
        let job = client.get(&route(&id, "")).await.tried("Error querying job")?;
        outln!("{}", block(&head(&job)));
        if self.short {
            return Ok(Exit::DONE);
        }
        if job["ParameterizedJob"].is_object() && job["Dispatched"] != true {
            return parameterized(&client, &job).await;
        }
        if job["Periodic"].is_object() {
            return periodic(&client, &job).await;
        }
        self.details(&client, &job, &context.program).await
    }
}

impl Status {
    async fn all(&self) -> Outcome {
        let found = self.general.client()?.get("/v1/jobs").await.tried("Error querying jobs")?;
        match items(&found) {
            [] => outln!("No running jobs"),
            found => outln!("{}", jobs(found, self.general.all_namespaces())),
        }
        Ok(Exit::DONE)
    }

    async fn details(&self, client: &Client, job: &Value, program: &str) -> Outcome {
        let id = text(&job["ID"]);
        let get = |rest: &str| route(id, rest);
        summary(client, id).await?;
        let all = newest_first(client.get(&get("/evaluations")).await.tried("Error querying job evaluations")?);
        if self.verbose || self.evals {
            section("Evaluations", &evals(items(&all), self.verbose));
        }
        if let Some(failures) = failures(items(&all), self.verbose, program) {
            section("Placement Failure", &failures);
        }
        let every = if self.all_allocs { "true" } else { "" };
        let path = with_query(&get("/allocations"), &[("all", every)]);
        let found = newest_first(client.get(&path).await.tried("Error querying job allocations")?);
        if let Some(future) = future_attempts(job, items(&found), items(&all), self.verbose, now()) {
            section("Future Rescheduling Attempts", &future);
        }
        let deployment = client.get(&get("/deployment")).await.tried("Error querying latest job deployment")?;
        if !deployment.is_null() {
            section("Latest Deployment", &latest(client, &deployment, self.verbose).await?);
        }
        section("Allocations", &allocs(items(&found), self.verbose, true));
        Ok(Exit::DONE)
    }
}

fn head(job: &Value) -> Vec<(&'static str, String)> {
    let is = |key: &str| job[key].is_object().to_string();
    let datacenters: Vec<&str> = items(&job["Datacenters"]).iter().map(text).collect();
    let mut pairs = vec![
        ("ID", text(&job["ID"]).to_owned()),
        ("Name", text(&job["Name"]).to_owned()),
        ("Submit Date", time(job["SubmitTime"].as_i64().unwrap_or(0))),
        ("Type", text(&job["Type"]).to_owned()),
        ("Priority", job["Priority"].to_string()),
        ("Datacenters", datacenters.join(",")),
        ("Namespace", text(&job["Namespace"]).to_owned()),
        ("Node Pool", text(&job["NodePool"]).to_owned()),
        ("Status", state(job)),
        ("Periodic", is("Periodic")),
        ("Parameterized", is("ParameterizedJob")),
    ];
    let token = text(&job["DispatchIdempotencyToken"]);
    if !token.is_empty() {
        pairs.push(("Idempotency Token", token.to_owned()));
    }
    if job["Periodic"].is_object() && !job["ParameterizedJob"].is_object() {
        let next = if job["Stop"] == true { Some("none (job stopped)".to_owned()) } else { next_launch(job) };
        pairs.extend(next.map(|next| ("Next Periodic Launch", next)));
    }
    pairs
}

/// The latest deployment: its block without the job, then those of other regions, then its groups.
async fn latest(client: &Client, deployment: &Value, verbose: bool) -> Result<String, Failure> {
    let whole = monitor::deployment_block(client, deployment, verbose).await?;
    let (_, rest) = whole.split_once("\n\n").unwrap_or((&whole, ""));
    let head = block(&[
        ("ID", shown(text(&deployment["ID"]), verbose)),
        ("Status", text(&deployment["Status"]).to_owned()),
        ("Description", text(&deployment["StatusDescription"]).to_owned()),
    ]);
    Ok(if rest.is_empty() { head } else { format!("{head}\n\n{rest}") })
}

async fn summary(client: &Client, id: &str) -> Result<(), Failure> {
    let summary = client.get(&route(id, "/summary")).await.tried("Error querying job summary")?;
    let states = ["Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"];
    let groups: BTreeMap<&String, &Value> = summary["Summary"].as_object().into_iter().flatten().collect();
    let row = |(name, counts): (&&String, &&Value)| {
        let mut cells = vec![(*name).clone()];
        cells.extend(states.map(|state| counts[state].as_i64().unwrap_or(0).to_string()));
        cells
    };
    let headings: Vec<&str> = ["Task Group"].into_iter().chain(states).collect();
    section("Summary", &list(&headings, &groups.iter().map(row).collect::<Vec<_>>()));
    let children = &summary["Children"];
    let any = ["Pending", "Running", "Dead"].iter().any(|state| children[*state].as_i64().unwrap_or(0) > 0);
    if any {
        section("Children Job Summary", &children_row(children));
    }
    Ok(())
}

fn children_row(children: &Value) -> String {
    let states = ["Pending", "Running", "Dead"];
    list(&states, &[states.map(|state| children[state].as_i64().unwrap_or(0).to_string()).to_vec()])
}

/// The newest failed placement, while an evaluation is blocked. `program` is the name in the hint.
fn failures(evals: &[Value], verbose: bool, program: &str) -> Option<String> {
    if !evals.iter().any(|eval| text(&eval["Status"]) == "blocked") {
        return None;
    }
    let failed = |eval: &&Value| eval["FailedTGAllocs"].as_object().is_some_and(|groups| !groups.is_empty());
    let newest = evals.iter().filter(failed).max_by_key(|eval| eval["CreateIndex"].as_u64())?;
    let groups: BTreeMap<&String, &Value> = newest["FailedTGAllocs"].as_object().into_iter().flatten().collect();
    let mut parts: Vec<String> = Vec::new();
    for (name, metric) in groups.iter().take(FAILED_GROUPS_MAX) {
        let lines = monitor::metric_lines(metric, verbose, "  ");
        parts.push(format!("Task Group \"{name}\":\n{lines}"));
    }
    if groups.len() > FAILED_GROUPS_MAX {
        parts.push(format!(
            "Placement failures truncated. To see remainder run:\n{program} eval status {}",
            text(&newest["ID"])
        ));
    }
    Some(parts.join("\n\n"))
}

/// A row for each group whose last changed allocation waits for an evaluation; `None`: there is none.
fn future_attempts(job: &Value, allocs: &[Value], evals: &[Value], verbose: bool, now: i64) -> Option<String> {
    let mut latest: BTreeMap<&str, &Value> = BTreeMap::new();
    for alloc in allocs {
        let known = latest.entry(text(&alloc["TaskGroup"])).or_insert(alloc);
        if alloc["ModifyTime"].as_i64() > known["ModifyTime"].as_i64() {
            *known = alloc;
        }
    }
    let row = |(group, alloc): (&str, &Value)| {
        let eval = evals.iter().find(|eval| eval["ID"] == alloc["FollowupEvalID"])?;
        let at = from_now(text(&eval["WaitUntil"]), now)?;
        let mut cells = vec![group.to_owned()];
        cells.extend(verbose.then(|| reschedule_policy(job, group)));
        cells.extend([shown(text(&eval["ID"]), verbose), at]);
        Some(cells)
    };
    let rows: Vec<Vec<String>> = latest.into_iter().filter_map(row).collect();
    let mut headings = vec!["Task Group", "Eval ID", "Eval Time"];
    if verbose {
        headings.insert(1, "Reschedule Policy");
    }
    (!rows.is_empty()).then(|| list(&headings, &rows))
}

/// How often a group's allocations are rescheduled, and after which delays.
fn reschedule_policy(job: &Value, group: &str) -> String {
    let group = items(&job["TaskGroups"]).iter().find(|one| text(&one["Name"]) == group);
    let Some(policy) = group.map(|group| &group["ReschedulePolicy"]).filter(|policy| policy.is_object()) else {
        return String::new();
    };
    let span = |key: &str| go_duration(policy[key].as_i64().unwrap_or(0));
    let delays = format!("{} delay, max_delay = {}", text(&policy["DelayFunction"]), span("MaxDelay"));
    if policy["Unlimited"] == true {
        return format!("unlimited with {delays}");
    }
    format!("{} in {} with {delays}", policy["Attempts"].as_i64().unwrap_or(0), span("Interval"))
}

async fn children(client: &Client, job: &Value, infix: &str) -> Result<Vec<Value>, Failure> {
    let id = text(&job["ID"]);
    let prefix = format!("{id}{infix}");
    let found = client.get(&format!("/v1/jobs?prefix={}", escape(&prefix))).await.tried("Error querying job")?;
    Ok(items(&found).iter().filter(|child| text(&child["ParentID"]) == id).cloned().collect())
}

fn child_rows(children: &[Value]) -> String {
    let row = |child: &Value| vec![text(&child["ID"]).to_owned(), state(child)];
    list(&["ID", "Status"], &children.iter().map(row).collect::<Vec<_>>())
}

async fn periodic(client: &Client, job: &Value) -> Outcome {
    let summary = client.get(&route(text(&job["ID"]), "/summary")).await.tried("Error querying job summary")?;
    section("Children Job Summary", &children_row(&summary["Children"]));
    let launched = children(client, job, "/periodic-").await?;
    if launched.is_empty() {
        outln!("\nNo instances of periodic job found");
    } else {
        section("Previously Launched Jobs", &child_rows(&launched));
    }
    Ok(Exit::DONE)
}

async fn parameterized(client: &Client, job: &Value) -> Outcome {
    let config = &job["ParameterizedJob"];
    let names = |key: &str| items(&config[key]).iter().map(text).collect::<Vec<_>>().join(", ");
    let pairs = [
        ("Payload", text(&config["Payload"]).to_owned()),
        ("Required Metadata", names("MetaRequired")),
        ("Optional Metadata", names("MetaOptional")),
    ];
    section("Parameterized Job", &indented(&block(&pairs), ""));
    let summary = client.get(&route(text(&job["ID"]), "/summary")).await.tried("Error querying job summary")?;
    section("Parameterized Job Summary", &children_row(&summary["Children"]));
    let dispatched = children(client, job, "/dispatch-").await?;
    if dispatched.is_empty() {
        outln!("\nNo dispatched instances of parameterized job found");
    } else {
        section("Dispatched Jobs", &child_rows(&dispatched));
    }
    Ok(Exit::DONE)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn hint_below_truncated_failures_has_the_name_of_the_program() {
        let groups: serde_json::Map<String, Value> = (1..=6).map(|at| (format!("g{at}"), json!({}))).collect();
        let failed = json!({ "ID": "0123456789", "CreateIndex": 7, "Status": "complete", "FailedTGAllocs": groups });
        let blocked = json!({ "ID": "b", "CreateIndex": 8, "Status": "blocked" });
        let shown = failures(&[blocked, failed.clone()], false, "songline").expect("an evaluation is blocked");
        assert!(shown.starts_with("Task Group \"g1\":\n") && !shown.contains("g6"), "{shown}");
        assert!(shown.ends_with("run:\nsongline eval status 0123456789"), "{shown}");
        assert_eq!(failures(&[failed], false, "songline"), None);
    }

    #[test]
    fn future_attempts_are_those_of_the_last_allocation_of_each_group() {
        let policy = json!({
            "Attempts": 1, "Interval": 3_600_000_000_000_i64, "DelayFunction": "constant", "MaxDelay": 0,
        });
        let job = json!({ "TaskGroups": [{ "Name": "g", "ReschedulePolicy": policy }] });
        let allocs = [
            json!({ "TaskGroup": "g", "ModifyTime": 1, "FollowupEvalID": "" }),
            json!({ "TaskGroup": "g", "ModifyTime": 2, "FollowupEvalID": "0123456789" }),
            json!({ "TaskGroup": "h", "ModifyTime": 3, "FollowupEvalID": "past" }),
        ];
        let evals = [
            json!({ "ID": "0123456789", "WaitUntil": "2033-05-18T03:33:49Z" }),
            json!({ "ID": "past", "WaitUntil": "2033-05-18T03:33:20Z" }),
        ];
        let shown = |verbose| future_attempts(&job, &allocs, &evals, verbose, 2_000_000_000_000_000_000);
        expect![[r#"
            Task Group  Eval ID   Eval Time
            g           01234567  29s from now"#]]
        .assert_eq(&shown(false).expect("one is to come"));
        expect![[r#"
            Task Group  Reschedule Policy                                Eval ID     Eval Time
            g           1 in 1h0m0s with constant delay, max_delay = 0s  0123456789  29s from now"#]]
        .assert_eq(&shown(true).expect("one is to come"));
        assert_eq!(future_attempts(&job, &allocs[..1], &evals, false, 0), None);
    }
}
