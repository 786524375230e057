//! Stopping and purging jobs.

use axum::response::Response;
use songline_commands::DeregisterJob;
use songline_model::{EvalTrigger, Evaluation, JobKey, JobType};
use songline_wire::responses::{JobDeregisterResponse, QueryMeta};

use super::asked::{check_priority, eval};
use super::regions::{self, Part};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::params::parse_int;
use crate::server::{Regions, Writes};

pub(super) async fn deregister<S: Writes + Regions>(call: Call<S>) -> Result<Response, ApiError> {
    if call.query().flag("global") { regions::to_the_end(stop(call)).await } else { stop(call).await }
}

async fn stop<S: Writes + Regions>(call: Call<S>) -> Result<Response, ApiError> {
    let query = call.query();
    let purge = query.boolean("purge")?.unwrap_or(false);
    // A request of another region is for this region's part.
    let global = query.boolean("global")?.unwrap_or(false) && Part::of(&call.headers)?.is_none();
    let eval_priority = match &*query.text("eval_priority") {
        "" => 0,
        text => parse_int(text).map_err(|error| {
            let error = error.replacen("ParseInt", "Atoi", 1);
            ApiError::internal(format!("Failed to parse value of \"eval_priority\" ({text}) as a int: {error}"))
        })?,
    };
    check_priority(eval_priority.max(0))?;
    let no_shutdown_delay = query.boolean("no_shutdown_delay").map_err(|error| {
        // The reference's error text has this stray letter.
        ApiError::internal(error.text.replacen("\"no_shutdown_delay\"", "\"no_shutdown_delay\"q", 1))
    })?;
    let namespace = call.write_namespace()?;
    let view = call.view();
    let Some(job) = view.job(&namespace, call.id()) else {
        return call.nothing_to_write(0, &JobDeregisterResponse::default()).await;
    };
    let others = if global { regions::to_deregister(&call, job)? } else { Vec::new() };
    let starts_by_itself = !job.is_periodic() && !job.is_parameterized();
    let priority = [eval_priority, job.priority].into_iter().find(|priority| *priority > 0).unwrap_or(50);
    // Clients see the type `service` for jobs of every type; stopping is the same work for every scheduler.
    let eval = starts_by_itself
        .then(|| Evaluation { kind: JobType::Service, ..eval(&call, job, priority, EvalTrigger::JobDeregister) });
    let eval_id = eval.as_ref().map(|eval| eval.id).unwrap_or_default();
    let command = DeregisterJob {
        job: JobKey::new(namespace.as_str(), call.id()),
        purge,
        no_shutdown_delay: no_shutdown_delay.unwrap_or(false),
        submit_time: call.server.now(),
        eval,
        versions_max: call.server.info().job_tracked_versions,
    };
    let index = call.propose(command).await?.index;
    regions::deregister(&call, job, &others).await?;
    let answer = JobDeregisterResponse {
        eval_id,
        eval_create_index: index,
        job_modify_index: index,
        meta: QueryMeta::written(index),
        ..JobDeregisterResponse::default()
    };
    call.written(index, &answer)
}
