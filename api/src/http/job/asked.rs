//! Shared parts of requests about a job: the namespace and the job that they name, and the evaluation that they ask
//! for.

use songline_lang::go_json::Names;
use songline_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, Job, JobKey, Str};

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::params::ReadParams;
use crate::server::Agent;

/// Go's type names for bodies with a job, as error texts show them.
pub(super) const API: Names<'static> = Names {
    package: "api",
    root: None,
    fields: &[("ScalingPolicy.Min", "int64"), ("ScalingPolicy.Max", "int64"), ("SpreadTarget.Percent", "uint8")],
};

/// Key of the job that a read is about. `*` is no namespace here, so no job has such a key.
pub(super) fn key<S>(call: &Call<S>, params: &ReadParams) -> JobKey {
    JobKey::new(params.namespace.as_str(), call.id())
}

/// Namespace of a write to a job: that of the query, else of the body, else of the job, else `default`.
pub(super) fn write_namespace<S>(call: &Call<S>, in_body: &str, in_job: Option<&Str>) -> Str {
    let asked = call.query().text("namespace");
    [&*asked, in_body, in_job.map_or("", Str::as_str)]
        .into_iter()
        .find(|name| !name.is_empty())
        .map_or(Str::new_static(songline_model::DEFAULT_NAMESPACE), Str::new)
}

/// Refuses an evaluation priority other than 0 or 1 to 100.
pub(super) fn check_priority(priority: i64) -> Result<(), ApiError> {
    if (0..=100).contains(&priority) {
        return Ok(());
    }
    Err(ApiError::bad_request("Eval priority must be between 1 and 100 inclusively"))
}

/// A new evaluation of a job.
pub(super) fn eval<S: Agent>(call: &Call<S>, job: &Job, priority: i64, triggered_by: EvalTrigger) -> Evaluation {
    let now = call.server.now();
    Evaluation {
        id: EvalId::from(call.fresh_uuid()),
        namespace: job.namespace.clone(),
        priority,
        kind: job.kind.clone(),
        triggered_by,
        job_id: job.id.clone(),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    }
}
