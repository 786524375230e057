//! Dispatch: creates a child of a parameterized job with a payload and meta.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use songline_commands::RegisterJob;
use songline_model::{Blob, EvalTrigger, Job, Str};
use songline_wire::job::JobDispatchRequest;
use songline_wire::responses::JobDispatchResponse;

use super::admission;
use super::asked::eval;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::server::{Agent, Writes};

/// Largest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 16 * 1024;

pub(super) async fn dispatch<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let namespace = call.write_namespace()?;
    let mut request: JobDispatchRequest = call.json().await?;
    if !request.job_id.is_empty() && request.job_id != *call.id() {
        return Err(ApiError::bad_request("Job ID does not match"));
    }
    let view = call.view();
    admission::check_registration_allowed(&call, &view)?;
    let parent = view.job(&namespace, call.id()).ok_or_else(|| ApiError::internal("parameterized job not found"))?;
    let payload = request.payload.take().unwrap_or_default();
    check(parent, &request, payload.0.len())?;
    let in_query = call.query().text("idempotency_token");
    let token = if in_query.is_empty() { request.idempotency_token.clone() } else { Str::new(in_query) };
    if !token.is_empty() {
        let prefix = format!("{}/", parent.id);
        let earlier = view
            .jobs_with_prefix(&namespace, &prefix)
            .find(|job| job.parent_id == parent.id && job.dispatch_idempotency_token == token);
        if let Some(child) = earlier {
            let answer = JobDispatchResponse {
                dispatched_job_id: child.id.0.clone(),
                job_create_index: child.create_index,
                index: child.modify_index,
                ..JobDispatchResponse::default()
            };
            return call.nothing_to_write(answer.index, &answer).await;
        }
    }
    let child = child(&call, parent, request, payload, token);
    let id = child.id.0.clone();
    let eval = (!child.is_periodic()).then(|| eval(&call, &child, child.priority, EvalTrigger::JobRegister));
    let eval_id = eval.as_ref().map(|eval| eval.id).unwrap_or_default();
    let has_eval = eval.is_some();
    let command = RegisterJob {
        job: Arc::new(child),
        eval,
        versions_max: call.server.info().job_tracked_versions,
        ..RegisterJob::default()
    };
    let index = call.propose(command).await?.index;
    // A repeated dispatch answers with the child of the first one, whose id contains the time of that dispatch.
    let made = call.view_after(index).await.eval(eval_id).map(|eval| eval.job_id.0.clone());
    let answer = JobDispatchResponse {
        dispatched_job_id: made.unwrap_or(id),
        eval_id,
        eval_create_index: if has_eval { index } else { 0 },
        job_create_index: index,
        index,
    };
    call.written(index, &answer)
}

fn child<S: Agent>(call: &Call<S>, parent: &Job, request: JobDispatchRequest, payload: Blob, token: Str) -> Job {
    let now = call.server.now();
    let random = call.fresh_uuid().simple().to_string();
    let prefix =
        if request.id_prefix_template.is_empty() { String::new() } else { format!("{}-", request.id_prefix_template) };
    let id = format!("{}/dispatch-{prefix}{}-{}", parent.id, now.secs(), &random[..8]);
    let mut meta: BTreeMap<Str, Str> = parent.meta.clone().unwrap_or_default();
    meta.extend(request.meta.into_iter().flatten());
    Job {
        dispatched: true,
        dispatch_idempotency_token: token,
        payload: Some(payload).filter(|payload| !payload.0.is_empty()),
        meta: Some(meta).filter(|meta| !meta.is_empty()),
        ..parent.child(id.as_str().into(), now)
    }
}

/// Refuses a payload or meta that the parent does not accept.
fn check(parent: &Job, request: &JobDispatchRequest, payload: usize) -> Result<(), ApiError> {
    let refuse = |text: String| Err(ApiError::internal(text));
    let Some(config) = parent.parameterized_job.as_ref().filter(|_| parent.is_parameterized()) else {
        return refuse(format!("Specified job \"{}\" is not a parameterized job", parent.id));
    };
    if parent.stop {
        return refuse(format!("Specified job \"{}\" is stopped", parent.id));
    }
    if config.payload == "required" && payload == 0 {
        return refuse("Payload is not provided but required by parameterized job".to_owned());
    }
    if config.payload == "forbidden" && payload > 0 {
        return refuse("Payload provided but forbidden by parameterized job".to_owned());
    }
    if payload > PAYLOAD_BYTES_MAX {
        return refuse(format!("Payload exceeds maximum size; {payload} > {PAYLOAD_BYTES_MAX}"));
    }
    let (required, optional) =
        (config.meta_required.as_deref().unwrap_or_default(), config.meta_optional.as_deref().unwrap_or_default());
    let given: Vec<&str> = request.meta.iter().flatten().map(|(key, _)| key.as_str()).collect();
    let known = |key: &str| required.iter().chain(optional).any(|name| name == key);
    let unknown: Vec<&str> = given.iter().copied().filter(|key| !known(key)).collect();
    if !unknown.is_empty() {
        return refuse(format!("Dispatch request included unpermitted metadata keys: [{}]", unknown.join(" ")));
    }
    let missing: Vec<&str> = required.iter().map(Str::as_str).filter(|key| !given.contains(key)).collect();
    if !missing.is_empty() {
        return refuse(format!("Dispatch did not provide required meta keys: [{}]", missing.join(" ")));
    }
    Ok(())
}
