//! Waits until a step has settled: no evaluation is pending, every allocation is what it should be, and the conditions
//! of the step hold, for half a second.

use std::time::Duration;

use serde_json::Value;
use songline_model::{AllocClientStatus, AllocDesiredStatus, Deployment, EvalStatus, Job};
use songline_projections::State;
use songline_sim::simulation::Stage;
use tokio::time::Instant;

/// Time for which everything has to hold.
const HOLDS_FOR: Duration = Duration::from_millis(500);
/// Interval at which the state is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Time to wait if the step does not say.
const WITHIN: f64 = 20.0;

/// Waits for the step to settle. The error is what was still open at the end.
pub async fn settled(stage: &Stage, step: &Value) -> Result<(), String> {
    let within = Duration::from_secs_f64(step["within"].as_f64().unwrap_or(WITHIN));
    let begun = Instant::now();
    let mut since = None;
    loop {
        let open = stage.view().map_or(Some("the server is away".to_owned()), |view| open(&view, step));
        match open {
            None if since.get_or_insert_with(Instant::now).elapsed() >= HOLDS_FOR => return Ok(()),
            None => {}
            Some(why) if begun.elapsed() >= within => return Err(why),
            Some(_) => since = None,
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Reason why a step has not settled. `None`: it has.
fn open(view: &State, step: &Value) -> Option<String> {
    let waits = |eval: &songline_model::Evaluation| eval.wait_until.is_some() || eval.wait.nanos() > 0;
    let pending =
        view.evals().find(|eval| eval.status == EvalStatus::Pending && eval.kind.as_str() != "_core" && !waits(eval));
    if let Some(eval) = pending {
        return Some(format!("an evaluation of {} by {} is pending", eval.job_id, eval.triggered_by));
    }
    let moving = view.allocs().find(|alloc| match alloc.desired_status {
        AllocDesiredStatus::Run => alloc.client_status == AllocClientStatus::Pending,
        AllocDesiredStatus::Stop | AllocDesiredStatus::Evict => !alloc.client_status.is_terminal(),
    });
    if let Some(alloc) = moving {
        return Some(format!("{} on {} is {}", alloc.name, alloc.node_name, alloc.client_status));
    }
    step["until"].as_array().into_iter().flatten().find(|condition| !holds(view, condition)).map(Value::to_string)
}

/// Whether a condition `[job, what, value]` holds.
fn holds(view: &State, condition: &Value) -> bool {
    let (name, what) = (condition[0].as_str().unwrap_or_default(), condition[1].as_str().unwrap_or_default());
    let mine =
        |id: &songline_model::JobId| *id == *name || view.jobs().any(|job| job.id == *id && job.parent_id == *name);
    let (what, status) = what.split_once(':').unwrap_or((what, ""));
    let newest = || view.deployments().filter(|row| mine(&row.job_id)).max_by_key(|row| row.create_index);
    let count = match what {
        "client" => view.allocs().filter(|row| mine(&row.job_id) && row.client_status.as_str() == status).count(),
        "desired" => view.allocs().filter(|row| mine(&row.job_id) && row.desired_status.as_str() == status).count(),
        "eval" => view.evals().filter(|row| mine(&row.job_id) && row.status.as_str() == status).count(),
        "trigger" => view.evals().filter(|row| mine(&row.job_id) && row.triggered_by.as_str() == status).count(),
        "deployments" => view.deployments().filter(|row| mine(&row.job_id) && row.status.as_str() == status).count(),
        "deployment" => return newest().is_some_and(|row| condition[2] == row.status.as_str()),
        "healthy" => newest().map_or(0, |row| healthy(row)),
        "version" => view.jobs().filter(|job| *job.id == *name).map(|job| version(job)).sum(),
        "children" => view.jobs().filter(|job| job.parent_id == *name).count(),
        other => panic!("there is no condition {other}"),
    };
    count as u64 >= condition[2].as_u64().unwrap_or_default()
}

fn healthy(deployment: &Deployment) -> usize {
    let groups = deployment.task_groups.iter().flat_map(|groups| groups.values());
    groups.map(|group| usize::try_from(group.healthy_allocs).unwrap_or(0)).sum()
}

fn version(job: &Job) -> usize {
    usize::try_from(job.version).unwrap_or(usize::MAX)
}
