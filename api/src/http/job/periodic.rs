//! Periodic jobs: forced launches. Launches at the scheduled times are the leader's.

use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use songline_commands::RegisterJob;
use songline_lang::schedule::Schedule;
use songline_model::{EvalId, EvalTrigger, Job, Time};

use super::asked::eval;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::server::Writes;

/// Answer to a forced launch of a periodic job: the evaluation that it made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ForceResponse {
    #[serde(rename = "EvalID")]
    eval_id: EvalId,
    eval_create_index: u64,
    index: u64,
}

/// Launches a child now, whatever the job's times are, whether or not another child runs, and also while
/// registrations are rejected.
pub(super) async fn force<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let namespace = call.write_namespace()?;
    let view = call.view();
    let job = view.job(&namespace, call.id()).ok_or_else(|| ApiError::internal("job not found"))?;
    if !job.is_periodic() {
        return Err(ApiError::internal("can't force launch non-periodic job"));
    }
    if !job.is_periodic_active() {
        let id = &job.id;
        let text =
            format!("force launch for job \"{id}\" failed: can't force run non-tracked job \"{id}\" ({namespace})");
        return Err(ApiError::internal(text));
    }
    // Two launches within a second are two versions of one child.
    let now = call.server.now();
    let child = job.periodic_child(now, now);
    let eval = eval(&call, &child, child.priority, EvalTrigger::PeriodicJob);
    let eval_id = eval.id;
    let versions_max = call.server.info().job_tracked_versions;
    let command = RegisterJob { job: Arc::new(child), eval: Some(eval), versions_max, ..RegisterJob::default() };
    let index = call.propose(command).await?.index;
    call.written(index, &ForceResponse { eval_id, eval_create_index: index, index })
}

/// Time of the next launch of an enabled periodic job after `now`, in the job's time zone. `None`: the job is not an
/// enabled periodic one, or has no further time.
pub(super) fn next_launch(job: &Job, now: Time) -> Option<String> {
    let periodic = job.periodic.as_ref().filter(|periodic| periodic.enabled)?;
    let schedule = Schedule::of(periodic);
    schedule.shown(schedule.next(now)?)
}
