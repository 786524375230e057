//! Scaling of a job's groups: status, new counts, and scaling events without a count. Policies are in `scaling`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use songline_commands::{AddScalingEvent, RegisterJob};
use songline_events::watch::WatchKey;
use songline_lang::go_json::Names;
use songline_model::{AllocClientStatus, EvalId, EvalTrigger, Job, JobKey, JobType, ScalingEvent, Str};
use songline_projections::State;
use songline_wire::job::{GroupScaleStatus, JobScaleStatus, ScalingRequest};
use songline_wire::responses::{JobRegisterResponse, QueryMeta};

use super::admission;
use super::asked::{eval, key};
use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::server::{Reads, Writes};

/// Go's type names for the request, as error texts show them.
const NAMES: Names<'static> = Names { package: "api", root: None, fields: &[("ScalingRequest.Count", "int64")] };

pub(super) async fn status<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let key = key(&call, &params);
    let keys = [WatchKey::Job(key.clone()), WatchKey::JobAllocs(key.clone()), WatchKey::JobScaling(key.clone())];
    let found = blocking::run(&call, &params, &keys, |view| {
        let Some(job) = view.job_by_key(&key).cloned() else {
            return Ok(At { index: view.latest_index(), value: None });
        };
        let (groups, newest) = groups(view, &key);
        let events = view.scaling_events(&key.namespace, &key.id).cloned();
        let told = events.as_ref().map_or(0, |events| events.modify_index);
        Ok(At { index: job.modify_index.max(newest).max(told), value: Some((job, groups, events)) })
    })
    .await?;
    let Some((job, mut groups, events)) = found.value else {
        return Err(ApiError::missing("job not found", found.index));
    };
    let mut task_groups = BTreeMap::new();
    for group in job.groups() {
        let counted = groups.remove(group.name.as_str()).unwrap_or_default();
        let events = events.as_ref().and_then(|row| row.scaling_events.get(&group.name)).map(Vec::as_slice);
        task_groups.insert(group.name.as_str(), GroupScaleStatus { desired: group.count, events, ..counted });
    }
    let answer = JobScaleStatus {
        job_id: &job.id,
        namespace: &job.namespace,
        job_create_index: job.create_index,
        job_modify_index: job.modify_index,
        job_stopped: job.stop,
        task_groups,
    };
    call.read(&Meta::at(found.index), &answer)
}

pub(super) async fn scale<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: ScalingRequest = call.json_named(NAMES).await?;
    let target = request.target.unwrap_or_default();
    let asked_job = target.get("Job").map_or("", Str::as_str);
    if !asked_job.is_empty() && asked_job != call.id() {
        return Err(ApiError::bad_request("job ID in payload did not match URL"));
    }
    let namespace = call.write_namespace()?;
    let group = target.get("Group").cloned().unwrap_or_default();
    check(&request.namespace, &namespace, &group, request.count, request.error)?;
    let view = call.view();
    admission::check_registration_allowed(&call, &view)?;
    let job = view
        .job(&namespace, call.id())
        .ok_or_else(|| ApiError::not_found(format!("job \"{}\" not found", call.id())))?;
    let previous = check_group(&view, job, &group, request.count)?;
    let scaled = match request.count {
        Some(count) => Some(write_count(&call, job, &group, count).await?),
        None => None,
    };
    let eval_id = scaled.as_ref().and_then(|scaled| scaled.eval_id);
    let event = ScalingEvent {
        time: call.server.now(),
        count: request.count,
        previous_count: previous,
        message: request.message,
        error: request.error,
        meta: request.meta,
        eval_id,
        create_index: 0,
    };
    let index = call.propose(AddScalingEvent { job: job.key(), group, event }).await?.index;
    let written = scaled.map_or(job.job_modify_index, |scaled| scaled.index);
    let answer = JobRegisterResponse {
        eval_id: eval_id.unwrap_or_default(),
        eval_create_index: if eval_id.is_some() { written } else { 0 },
        job_modify_index: written,
        meta: QueryMeta { known_leader: true, ..QueryMeta::written(index) },
        ..JobRegisterResponse::default()
    };
    call.written(index, &answer)
}

/// Result of a written count.
struct Scaled {
    index: u64,
    eval_id: Option<EvalId>,
}

/// Registers the job with another count of one group. The evaluation is part of the entry: without one, a new count
/// would have no effect.
async fn write_count<S: Writes>(call: &Call<S>, job: &Job, group: &str, count: i64) -> Result<Scaled, ApiError> {
    let mut scaled = Job::clone(job);
    for row in scaled.task_groups.iter_mut().flatten().filter(|row| row.name == group) {
        row.count = count;
    }
    scaled.submit_time = call.server.now();
    let starts_by_itself = !job.is_periodic() && !job.is_parameterized();
    let eval = starts_by_itself.then(|| eval(call, job, job.priority, EvalTrigger::JobScaling));
    let eval_id = eval.as_ref().map(|eval| eval.id);
    let command = RegisterJob {
        job: Arc::new(scaled),
        enforce_index: true,
        job_modify_index: job.job_modify_index,
        eval,
        versions_max: call.server.info().job_tracked_versions,
        ..RegisterJob::default()
    };
    let index = call.propose(command).await?.index;
    Ok(Scaled { index, eval_id })
}

/// Refuses requests that are invalid whatever the job is.
fn check(in_body: &str, namespace: &str, group: &str, count: Option<i64>, error: bool) -> Result<(), ApiError> {
    if !in_body.is_empty() && in_body != namespace {
        return Err(ApiError::bad_request("namespace in payload did not match header"));
    }
    if group.is_empty() {
        return Err(ApiError::bad_request("missing task group name for scaling action"));
    }
    if error && count.is_some() {
        return Err(ApiError::bad_request("scaling action should not contain count if error is true"));
    }
    if count.is_some_and(|count| count < 0) {
        return Err(ApiError::bad_request("scaling action count can't be negative"));
    }
    Ok(())
}

/// Refuses counts that the job or its policy does not allow. Returns the present count of the group.
fn check_group(view: &State, job: &Job, name: &str, count: Option<i64>) -> Result<i64, ApiError> {
    if job.kind == JobType::System {
        return Err(ApiError::bad_request("cannot scale jobs of type \"system\""));
    }
    let Some(group) = job.group(name) else {
        return Err(ApiError::bad_request(format!(
            "task group \"{name}\" specified for scaling does not exist in job"
        )));
    };
    let Some(count) = count else { return Ok(group.count) };
    if let Some(policy) = &group.scaling {
        if count < policy.min {
            return Err(ApiError::bad_request(format!(
                "group count was less than scaling policy minimum: {count} < {}",
                policy.min
            )));
        }
        if count > policy.max {
            return Err(ApiError::bad_request(format!(
                "group count was greater than scaling policy maximum: {count} > {}",
                policy.max
            )));
        }
    }
    if view.latest_deployment(&job.namespace, &job.id).is_some_and(|deployment| deployment.is_active()) {
        return Err(ApiError::bad_request("job scaling blocked due to active deployment"));
    }
    Ok(group.count)
}

/// Status of a job's allocations by group, and the newest index among them.
fn groups(view: &State, key: &JobKey) -> (BTreeMap<String, GroupScaleStatus<'static>>, u64) {
    let mut out: BTreeMap<String, GroupScaleStatus<'static>> = BTreeMap::new();
    let mut newest = 0;
    for alloc in view.allocs_of_job(&key.namespace, &key.id).filter(|alloc| !alloc.terminal() && !alloc.is_canary()) {
        let group = out.entry(alloc.task_group.to_string()).or_default();
        group.placed += 1;
        group.running += i64::from(alloc.client_status == AllocClientStatus::Running);
        group.healthy += i64::from(alloc.health() == Some(true));
        group.unhealthy += i64::from(alloc.health() == Some(false));
        newest = newest.max(alloc.modify_index);
    }
    (out, newest)
}
