//! Writing jobs: register, evaluate, revert, stability.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::HeaderValue;
use axum::response::Response;
use songline_commands::{RegisterJob, SetDesiredTransitions, SetJobStability, UpdateEvals};
use songline_lang::acl::NamespaceCapability;
use songline_model::{
    AllocClientStatus, AllocId, Deployment, DeploymentId, DeploymentStatus, DesiredTransition, EvalId, EvalTrigger,
    Evaluation, Job, JobKey, JobSubmission, JobType, Str,
};
use songline_projections::State;
use songline_wire::job::{JobEvaluateRequest, JobPart, JobRegisterRequest, JobRevertRequest, JobStabilityRequest};
use songline_wire::responses::{JobRegisterResponse, QueryMeta, WriteMeta};

use super::admission;
use super::asked::{API, check_priority, eval};
use super::regions::{self, Part};
use crate::caller::{Identity, token_not_found};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::server::{Agent, Regions, Writes};

/// Parameters of a registration beside the job.
#[derive(Default)]
struct Options {
    submission: Option<JobSubmission>,
    enforce_index: bool,
    job_modify_index: u64,
    preserve_counts: bool,
    eval_priority: i64,
    policy_override: bool,
}

pub(super) async fn register<S: Writes + Regions>(call: Call<S>) -> Result<Response, ApiError> {
    submit(call, None).await
}

pub(super) async fn update<S: Writes + Regions>(call: Call<S>) -> Result<Response, ApiError> {
    let id = Str::new(call.id());
    submit(call, Some(id)).await
}

async fn submit<S: Writes + Regions>(mut call: Call<S>, path_id: Option<Str>) -> Result<Response, ApiError> {
    let (mut request, body): (JobRegisterRequest, _) = call.json_and_bytes(API).await?;
    let Some(mut spec) = request.job else {
        return Err(ApiError::bad_request("Job must be specified"));
    };
    let Some(id) = &spec.id else {
        return Err(ApiError::bad_request("Job ID hasn't been provided"));
    };
    if path_id.is_some_and(|path_id| path_id != *id) {
        return Err(ApiError::bad_request("Job ID does not match name"));
    }
    check_priority(request.eval_priority)?;
    if spec.job_type() == JobType::System && spec.task_groups.iter().flatten().any(|group| group.scaling.is_some()) {
        return Err(ApiError::bad_request("Task groups with job type system do not support scaling blocks"));
    }
    let part = Part::of(&call.headers)?;
    if part.is_some() {
        // The region and the index of the body are those of the region that asks.
        (spec.region, request.region, request.enforce_index) = (None, Str::default(), false);
    }
    let namespace = call.namespace_or(&[&request.namespace, spec.namespace.as_deref().unwrap_or_default()]);
    if let Some(region) = admission::other_region(&call, &spec, &request.region) {
        return regions::pass(&call, &region, body).await;
    }
    call.demand()?;
    let job = admission::stored_form(&call, spec, &namespace, &request.region)?;
    let options = Options {
        submission: request.submission,
        enforce_index: request.enforce_index,
        job_modify_index: request.job_modify_index,
        preserve_counts: request.preserve_counts,
        eval_priority: request.eval_priority,
        policy_override: request.policy_override,
    };
    let prepared = Prepared::new(&call, job, options)?;
    match part {
        None if prepared.job.is_multiregion() => {
            regions::to_the_end(async move { regions::register(&call, prepared, body).await }).await
        }
        None => {
            let answer = prepared.commit(&call, None).await?;
            call.written(answer.meta.index, &answer)
        }
        Some(Part::Check) => call.plain(&prepared.part()),
        Some(Part::Write(version)) => {
            let answer = prepared.commit(&call, Some(version)).await?;
            call.written(answer.meta.index, &answer)
        }
        Some(Part::Stop) => Err(ApiError::bad_request("a registration cannot stop a job")),
    }
}

/// A job that is admitted and not proposed yet.
pub(super) struct Prepared {
    job: Job,
    existing: Option<Arc<Job>>,
    eval: Option<Evaluation>,
    submission: Option<JobSubmission>,
    enforce_index: bool,
    job_modify_index: u64,
    preserve_counts: bool,
    eval_priority: i64,
    /// Whether the stored version is to be registered anew although it is the same: it did not reach every region.
    is_incomplete: bool,
    warnings: String,
}

impl Prepared {
    /// Admits a job for a caller that may register it.
    fn new<S: Writes>(call: &Call<S>, job: Job, options: Options) -> Result<Self, ApiError> {
        let view = call.view();
        let admitted = admission::admit(&*call.server, &view, job).map_err(|error| admission::refusal(&error))?;
        check_kind_of_caller(call)?;
        admission::check_rights(call, &admitted.job)?;
        if options.policy_override {
            call.require_in(&admitted.job.namespace, &[NamespaceCapability::SentinelOverride])?;
        }
        admission::check_registration_allowed(call, &view)?;
        let mut warnings = admitted.warnings;
        let mut job = admitted.job;
        let existing = view.job(&job.namespace, &job.id);
        check_index(existing, &options)?;
        admission::check_update(existing.map(|row| &**row), &job)?;
        job.submit_time = call.server.now();
        if options.preserve_counts {
            preserve_counts(existing, &mut job);
        }
        job.carry_scaling_policies(existing.map(|row| &**row), || call.fresh_uuid().to_string().into());
        let starts_by_itself = !job.is_periodic() && !job.is_parameterized();
        let eval = starts_by_itself.then(|| {
            let priority = if options.eval_priority > 0 { options.eval_priority } else { job.priority };
            eval(call, &job, priority, EvalTrigger::JobRegister)
        });
        let submission = submission(call, options.submission, &job, &mut warnings);
        let latest = view.latest_deployment(&job.namespace, &job.id).filter(|_| job.is_multiregion());
        let is_incomplete = latest.is_some_and(|latest| {
            latest.is_incomplete() && existing.is_some_and(|row| row.version == latest.job_version)
        });
        Ok(Self {
            is_incomplete,
            existing: existing.cloned(),
            job,
            eval,
            submission,
            enforce_index: options.enforce_index,
            job_modify_index: options.job_modify_index,
            preserve_counts: options.preserve_counts,
            eval_priority: options.eval_priority,
            warnings: songline_model::warnings_text(&warnings),
        })
    }

    /// The admitted job.
    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    /// The change that a registration would make in this region.
    pub(super) fn part(&self) -> JobPart {
        let changed = self.is_incomplete || self.existing.as_ref().is_none_or(|row| row.spec_changed(&self.job));
        JobPart { version: self.existing.as_ref().map(|row| row.version), changed }
    }

    /// Proposes the job; for an unchanged one only its evaluation. `version` is the version that all regions of the job
    /// get; without one it is the next one.
    pub(super) async fn commit<S: Writes>(
        mut self,
        call: &Call<S>,
        version: Option<u64>,
    ) -> Result<JobRegisterResponse, ApiError> {
        let changed = self.part().changed;
        let stored = self.existing.as_ref().map(|row| (row.version, row.job_modify_index));
        let is_behind = version.is_some_and(|version| stored.is_none_or(|(stored, _)| stored < version));
        match (stored, version) {
            (Some((_, job_modify_index)), _) if !changed && !is_behind => {
                return self.evaluate(call, job_modify_index).await;
            }
            (Some((stored, _)), Some(version)) if !is_behind => {
                let id = &self.job.id;
                return Err(ApiError::internal(format!(
                    "job {id:?} has version {stored} here, so it cannot become version {version}"
                )));
            }
            // The version was chosen by the row that was seen, so the row must not have changed.
            (stored, Some(version)) => {
                self.job.version = version;
                (self.enforce_index, self.job_modify_index) = (true, stored.map_or(0, |(_, index)| index));
            }
            (_, None) => {}
        }
        let deployment = self.job.waits_for_regions().then(|| initializing(call, &self.job, self.eval_priority));
        let (starts_by_itself, eval_id) = (self.eval.is_some(), self.eval_id());
        let command = RegisterJob {
            job: Arc::new(self.job),
            submission: self.submission,
            enforce_index: self.enforce_index,
            job_modify_index: self.job_modify_index,
            preserve_counts: self.preserve_counts,
            eval: self.eval,
            deployment,
            versions_max: call.server.info().job_tracked_versions,
        };
        let index = call.propose(command).await?.index;
        Ok(JobRegisterResponse {
            eval_id,
            eval_create_index: if starts_by_itself { index } else { 0 },
            job_modify_index: index,
            warnings: self.warnings,
            meta: QueryMeta::written(index),
        })
    }

    /// Proposes only the evaluation.
    async fn evaluate<S: Writes>(self, call: &Call<S>, job_modify_index: u64) -> Result<JobRegisterResponse, ApiError> {
        let eval_id = self.eval_id();
        let index = match self.eval {
            Some(eval) => {
                call.propose(UpdateEvals { evals: vec![Evaluation { job_modify_index, ..eval }] }).await?.index
            }
            None => 0,
        };
        Ok(JobRegisterResponse {
            eval_id,
            eval_create_index: index,
            job_modify_index,
            warnings: self.warnings,
            meta: QueryMeta::written(index),
        })
    }

    fn eval_id(&self) -> EvalId {
        self.eval.as_ref().map(|eval| eval.id).unwrap_or_default()
    }
}

/// The deployment of a job of several regions. It places nothing until the regions before this one are through.
fn initializing<S: Agent>(call: &Call<S>, job: &Job, eval_priority: i64) -> Deployment {
    Deployment {
        id: DeploymentId::from(call.fresh_uuid()),
        namespace: job.namespace.clone(),
        job_id: job.id.clone(),
        is_multiregion: true,
        task_groups: Some(BTreeMap::new()),
        status: DeploymentStatus::Initializing,
        status_description: "Deployment is initializing".into(),
        eval_priority: if eval_priority > 0 { eval_priority } else { job.priority },
        ..Deployment::default()
    }
}

/// Refuses callers that register no jobs, whatever their policies grant: tasks and nodes. The reference stores the ACL
/// token of the submitter with the job, and these callers have none.
fn check_kind_of_caller<S>(call: &Call<S>) -> Result<(), ApiError> {
    match call.caller()?.identity() {
        Identity::Workload(_) => Err(ApiError::internal("ACL token is invalid")),
        Identity::Node(_) => Err(token_not_found()),
        Identity::AclsOff | Identity::Anonymous | Identity::Token(_) => Ok(()),
    }
}

/// Refuses a stale index early, because an unchanged job is not proposed and apply would not check it.
fn check_index(existing: Option<&Arc<Job>>, options: &Options) -> Result<(), ApiError> {
    if !options.enforce_index {
        return Ok(());
    }
    let wanted = options.job_modify_index;
    match existing {
        Some(_) if wanted == 0 => Err(ApiError::internal("Enforcing job modify index 0: job already exists")),
        Some(row) if row.job_modify_index != wanted => Err(ApiError::internal(format!(
            "Enforcing job modify index {wanted}: job exists with conflicting job modify index: {}",
            row.job_modify_index
        ))),
        None if wanted != 0 => {
            Err(ApiError::internal(format!("Enforcing job modify index {wanted}: job does not exist")))
        }
        Some(_) | None => Ok(()),
    }
}

fn preserve_counts(existing: Option<&Arc<Job>>, job: &mut Job) {
    let Some(existing) = existing else { return };
    for group in job.task_groups.iter_mut().flatten() {
        if let Some(known) = existing.group(&group.name) {
            group.count = known.count;
        }
    }
}

/// The source to store; `None` with a warning when it is too large.
fn submission<S: Agent>(
    call: &Call<S>,
    sent: Option<JobSubmission>,
    job: &Job,
    warnings: &mut Vec<String>,
) -> Option<JobSubmission> {
    let mut submission = sent?;
    let bytes_max = call.server.info().job_max_source_bytes;
    let bytes = submission.source.len() as u64;
    if bytes > bytes_max {
        let (size, max) = (humanize(bytes), humanize(bytes_max));
        warnings.push(format!("job source size of {size} exceeds maximum of {max} and will be discarded"));
        return None;
    }
    submission.namespace = job.namespace.clone();
    submission.job_id = job.id.clone();
    Some(submission)
}

/// Bytes in readable form, with decimal units.
fn humanize(bytes: u64) -> String {
    const UNITS: &[&str] = &["B", "kB", "MB", "GB", "TB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let value = (value * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

pub(super) async fn evaluate<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let namespace = call.write_namespace()?;
    let body = call.bytes().await?;
    let mut force_reschedule = false;
    if !body.is_empty() {
        let request: JobEvaluateRequest =
            songline_lang::go_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
        if request.job_id.is_empty() {
            return Err(ApiError::bad_request("Job ID must be specified"));
        }
        if request.job_id != *call.id() {
            return Err(ApiError::bad_request("JobID not same as job name"));
        }
        force_reschedule = request.eval_options.force_reschedule;
    }
    let view = call.view();
    let job = view.job(&namespace, call.id()).ok_or_else(|| ApiError::internal("job not found"))?;
    if job.is_periodic() {
        return Err(ApiError::internal("can't evaluate periodic job"));
    }
    if job.is_parameterized() {
        return Err(ApiError::internal("can't evaluate parameterized job"));
    }
    let eval =
        Evaluation { job_modify_index: job.modify_index, ..eval(&call, job, job.priority, EvalTrigger::JobRegister) };
    let eval_id = eval.id;
    let allocs = if force_reschedule { reschedulable(&view, job) } else { Vec::new() };
    let index = if force_reschedule {
        let transition = DesiredTransition { force_reschedule: Some(true), ..DesiredTransition::default() };
        let allocs = allocs.into_iter().map(|id| (id, transition.clone())).collect();
        call.propose(SetDesiredTransitions { allocs, evals: vec![eval] }).await?.index
    } else {
        call.propose(UpdateEvals { evals: vec![eval] }).await?.index
    };
    let answer = JobRegisterResponse {
        eval_id,
        eval_create_index: index,
        job_modify_index: job.modify_index,
        meta: QueryMeta::written(index),
        ..JobRegisterResponse::default()
    };
    call.written(index, &answer)
}

/// Failed allocations without a replacement, of groups whose policy permits rescheduling.
fn reschedulable(view: &State, job: &Job) -> Vec<AllocId> {
    let enabled = |group: &str| {
        let policy = job.group(group).and_then(|group| group.reschedule_policy.as_ref());
        policy.is_some_and(|policy| policy.attempts > 0 || policy.unlimited)
    };
    view.allocs_of_job(&job.namespace, &job.id)
        .filter(|alloc| alloc.client_status == AllocClientStatus::Failed && alloc.next_allocation.is_none())
        .filter(|alloc| !alloc.desired_transition.should_force_reschedule() && enabled(&alloc.task_group))
        .map(|alloc| alloc.id)
        .collect()
}

pub(super) async fn revert<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let namespace = call.write_namespace()?;
    let request: JobRevertRequest = call.json().await?;
    check_body_id(&request.job_id, call.id())?;
    let view = call.view();
    let id = call.id();
    let current = view.job(&namespace, id).ok_or_else(|| ApiError::internal(format!("job \"{id}\" not found")))?;
    if request.job_version == current.version {
        return Err(ApiError::internal("can't revert to current version"));
    }
    let wanted = version(&view, &JobKey::new(namespace.as_str(), id), request.job_version)?;
    if let Some(prior) = request.enforce_prior_version.filter(|prior| *prior != current.version) {
        return Err(ApiError::internal(format!(
            "Current job has version {}; enforcing version {prior}",
            current.version
        )));
    }
    let options = Options {
        enforce_index: request.enforce_prior_version.is_some(),
        job_modify_index: current.job_modify_index,
        ..Options::default()
    };
    let answer = Prepared::new(&call, Job::clone(&wanted), options)?.commit(&call, None).await?;
    let mut response = call.written(answer.meta.index, &answer)?;
    // Only this route has these headers, with wrong values, as in the reference.
    response.headers_mut().insert("x-nomad-knownleader", HeaderValue::from_static("false"));
    response.headers_mut().insert("x-nomad-lastcontact", HeaderValue::from_static("0"));
    Ok(response)
}

pub(super) async fn stable<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let namespace = call.write_namespace()?;
    let request: JobStabilityRequest = call.json().await?;
    check_body_id(&request.job_id, call.id())?;
    let key = JobKey::new(namespace.as_str(), call.id());
    version(&call.view(), &key, request.job_version)?;
    let written =
        call.propose(SetJobStability { job: key, version: request.job_version, stable: request.stable }).await?;
    call.written(written.index, &WriteMeta { index: written.index })
}

fn check_body_id(in_body: &str, in_path: &str) -> Result<(), ApiError> {
    if in_body.is_empty() {
        return Err(ApiError::bad_request("JobID must be specified"));
    }
    if in_body != in_path {
        return Err(ApiError::bad_request("Job ID does not match"));
    }
    Ok(())
}

fn version(view: &State, key: &JobKey, version: u64) -> Result<Arc<Job>, ApiError> {
    view.job_version(&key.namespace, &key.id, version).cloned().ok_or_else(|| {
        ApiError::internal(format!(
            "job \"{}\" in namespace \"{}\" at version {version} not found",
            key.id, key.namespace
        ))
    })
}
