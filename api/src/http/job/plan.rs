//! Dry runs and checks of jobs: plan, validate, differences between versions, parsing of job files.

use std::sync::Arc;

use axum::response::Response;
use songline_lang::acl::NamespaceCapability;
use songline_lang::jobspec::{self, ParseOptions};
use songline_model::{Job, JobDiff, NotAdmitted, warnings_text};
use songline_wire::alloc::{AllocFields, AllocStub};
use songline_wire::job::{JobPlanRequest, JobValidateRequest, JobsParseRequest};
use songline_wire::responses::{JobPlanResponse, JobValidateResponse, PlanAnnotationsView};

use super::asked::API;
use super::{admission, regions};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::shown::Shown;
use crate::server::{Agent, Reads, Regions, Schedules};

pub(super) async fn plan<S: Reads + Schedules + Regions>(mut call: Call<S>) -> Result<Response, ApiError> {
    let (request, body): (JobPlanRequest, _) = call.json_and_bytes(API).await?;
    let Some(spec) = request.job else {
        return Err(ApiError::bad_request("Job must be specified"));
    };
    let Some(id) = &spec.id else {
        return Err(ApiError::bad_request("Job must have a valid ID"));
    };
    if id != call.id() {
        return Err(ApiError::bad_request("Job ID does not match"));
    }
    let namespace = call.namespace_or(&[&request.namespace, spec.namespace.as_deref().unwrap_or_default()]);
    if let Some(region) = admission::other_region(&call, &spec, &request.region) {
        return regions::pass(&call, &region, body).await;
    }
    call.demand()?;
    let job = admission::stored_form(&call, spec, &namespace, &request.region)?;
    let view = call.server.view();
    let admitted = admission::admit(&*call.server, &view, job).map_err(|error| admission::refusal(&error))?;
    call.require_in(&admitted.job.namespace, &[NamespaceCapability::SubmitJob])?;
    if request.policy_override {
        call.require_in(&admitted.job.namespace, &[NamespaceCapability::SentinelOverride])?;
    }
    let warnings = admitted.warnings_text();
    let job = admitted.job;
    let next_periodic_launch = super::periodic::next_launch(&job, call.server.now());
    let existing = view.job(&job.namespace, &job.id);
    admission::check_update(existing.map(|row| &**row), &job)?;
    let job_modify_index = existing.map_or(0, |row| row.job_modify_index);
    let diff = request.diff.then(|| JobDiff::between(existing.map(|row| &**row), Some(&job), true)).transpose();
    let mut diff = diff.map_err(|error| ApiError::internal(error.to_string()))?;
    let planned = call.server.plan_job(Arc::new(job)).await?;
    if let Some(diff) = &mut diff {
        diff.annotate(planned.annotations.as_ref());
    }
    // Allocations of namespaces whose jobs the caller may not read would give way, too; their stubs are left out.
    let shown = Shown::to(&call.caller()?);
    let preempted = planned.preempted.iter().filter(|alloc| shown.jobs_in(&alloc.namespace));
    let stubs: Vec<_> = preempted.map(|alloc| AllocStub::new(alloc, AllocFields::default())).collect();
    let preempted_allocs = Some(stubs).filter(|stubs| !stubs.is_empty());
    let answer = JobPlanResponse {
        annotations: planned.annotations.map(|updates| PlanAnnotationsView { updates, preempted_allocs }),
        failed_tg_allocs: Some(planned.failed_tg_allocs).filter(|groups| !groups.is_empty()),
        job_modify_index,
        created_evals: Some(planned.created_evals).filter(|evals| !evals.is_empty()),
        diff,
        next_periodic_launch,
        warnings,
        index: job_modify_index,
    };
    call.written(job_modify_index, &answer)
}

pub(super) async fn validate<S: Reads + Regions>(mut call: Call<S>) -> Result<Response, ApiError> {
    let (request, body): (JobValidateRequest, _) = call.json_and_bytes(API).await?;
    let Some(mut spec) = request.job else {
        return Err(ApiError::bad_request("Job must be specified"));
    };
    if spec.namespace.as_ref().is_some_and(|namespace| namespace.is_empty()) {
        return Err(ApiError::internal("mismatched request namespace in request: \"default\", \"\""));
    }
    let namespace = spec.namespace.clone().unwrap_or_else(|| songline_model::DEFAULT_NAMESPACE.into());
    // This route ignores the job's own region.
    spec.region = None;
    if let Some(region) = admission::other_region(&call, &spec, &request.region) {
        return regions::pass(&call, &region, body).await;
    }
    call.demand()?;
    let job = admission::stored_form(&call, spec, &namespace, &request.region)?;
    let answer = match admission::admit(&*call.server, &call.server.view(), job) {
        Ok(admitted) => JobValidateResponse {
            driver_config_validated: true,
            warnings: admitted.warnings_text(),
            ..JobValidateResponse::default()
        },
        Err(NotAdmitted::Invalid { errors, warnings }) => JobValidateResponse {
            driver_config_validated: true,
            error: errors.to_string(),
            validation_errors: Some(errors.list().to_vec()),
            warnings: warnings_text(&warnings),
        },
        Err(error @ NotAdmitted::Mutator { .. }) => return Err(admission::refusal(&error)),
    };
    // The reference runs the mutators before it checks the caller, so their errors are told to every caller.
    call.require_in(&namespace, &[NamespaceCapability::ReadJob])?;
    call.plain(&answer)
}

/// Differences between each version and its predecessor, newest first.
pub(super) fn diffs(versions: &[&Job]) -> Result<Vec<JobDiff>, ApiError> {
    let pairs = versions.iter().zip(versions.iter().skip(1));
    let diffs = pairs.map(|(new, old)| JobDiff::between(Some(old), Some(new), true));
    diffs.collect::<Result<_, _>>().map_err(|error| ApiError::internal(error.to_string()))
}

pub(super) async fn parse<S: Agent>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: JobsParseRequest = call.json_named(API).await?;
    if request.job_hcl.is_empty() {
        return Err(ApiError::bad_request("Job spec is empty"));
    }
    let options = ParseOptions {
        variables: request.variables,
        hclv1: request.hclv1,
        entropy: call.fresh_uuid().as_u128(),
        ..ParseOptions::default()
    };
    match jobspec::parse(&request.job_hcl, &options) {
        Ok(mut job) => {
            if request.canonicalize {
                job.canonicalize();
            }
            call.plain(&job)
        }
        Err(error) if request.hclv1 => Err(ApiError::bad_request(error.to_string())),
        Err(error) => Err(ApiError::bad_request(format!("Failed to parse job: {error}"))),
    }
}
