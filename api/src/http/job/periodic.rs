//! Periodic jobs: forced launches. Launches at the scheduled times are the leader's.

use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use songline_commands::RegisterJob;
use songline_lang::cron::Cron;
use songline_lang::zone::Zone;
use songline_model::{EvalId, EvalTrigger, Job, PeriodicLaunch, Time};

use super::asked::eval;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::server::Server;

/// `PeriodicForceResponse` of the wire.
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
pub(super) async fn force<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
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
    let child = child(job, call.server.now());
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
    // An invalid zone was refused when the job was registered.
    let zone = Zone::named(&periodic.time_zone).unwrap_or_default();
    let ahead = |at: i64| zone.ahead(at);
    let specs =
        || Some(&periodic.spec).filter(|spec| !spec.is_empty()).into_iter().chain(periodic.specs.iter().flatten());
    let next = if periodic.spec_type == "cron" {
        specs().filter_map(|spec| Cron::parse(spec).ok()?.next(now.secs(), &ahead)).min()
    } else {
        // A list of Unix times, which tests of the reference use.
        specs()
            .flat_map(|spec| spec.split(','))
            .filter_map(|time| time.trim().parse::<i64>().ok())
            .filter(|time| *time > now.secs())
            .min()
    }?;
    zone.shown(next)
}

/// The child that `parent` launches at `now`. Two launches within a second are two versions of one child.
fn child(parent: &Job, now: Time) -> Job {
    Job { periodic: None, ..parent.child(PeriodicLaunch::child_id(&parent.id, now), now) }
}
