//! Jobs: lists and reads. Writes of jobs are in the files below `jobs/`.

pub(super) mod admission;
mod asked;
mod dispatch;
mod periodic;
mod plan;
mod regions;
mod register;
mod scale;
mod stop;

use std::sync::Arc;

use axum::response::Response;
use songline_events::watch::WatchKey;
use songline_model::Job;
use songline_projections::{State, Table};
use songline_wire::alloc::AllocFields;
use songline_wire::job::{JobStub, JobVersionsResponse, version};

use crate::error::ApiError;
use crate::http::alloc::{StubList, stubs};
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::http::params::{ReadParams, parse_bool, parse_uint};
use crate::server::{Reads, Regions, Schedules, Writes};
use asked::{key, where_body_says};
use songline_lang::acl::NamespaceCapability;

/// Capability that writes of jobs need.
const SUBMIT: &[NamespaceCapability] = &[NamespaceCapability::SubmitJob];
/// Capability that a dispatch needs.
const DISPATCH: &[NamespaceCapability] = &[NamespaceCapability::DispatchJob];

pub(super) fn routes<S: Writes + Schedules + Regions>(mux: &mut Mux<S>) {
    const READ_JOB: Capability = Capability::Namespace(&[NamespaceCapability::ReadJob]);
    const LIST_JOBS: Capability = Capability::Namespace(&[NamespaceCapability::ListJobs]);
    const SCALE: Capability = Capability::Namespace(&[NamespaceCapability::ScaleJob, NamespaceCapability::SubmitJob]);
    const FORCE: Capability =
        Capability::Namespace(&[NamespaceCapability::DispatchJob, NamespaceCapability::SubmitJob]);
    // The body may name the namespace, so the handler checks the capability.
    let (read_job, submit_own) = (READ_JOB, Capability::Object(SUBMIT));
    // The body may name the region, too, of which even an invalid token is told first.
    let (late_read, late_submit) = (Capability::Late(&READ_JOB), Capability::Late(&Capability::Object(SUBMIT)));
    let root = "/v1/job/";
    mux.add(Methods::Get, "/v1/jobs", "", Capability::Late(&LIST_JOBS), |call| Box::pin(list(call)));
    mux.add(Methods::Write, "/v1/jobs", "", late_submit, |call| Box::pin(register::register(call)));
    mux.add(
        Methods::Write,
        "/v1/jobs/parse",
        "",
        Capability::AgentNamespace(&[NamespaceCapability::ParseJob, NamespaceCapability::SubmitJob]),
        |call| Box::pin(plan::parse(call)),
    );
    mux.add(
        Methods::Write,
        "/v1/validate/job",
        "",
        Capability::Late(&Capability::Object(&[NamespaceCapability::ReadJob])),
        |call| Box::pin(plan::validate(call)),
    );
    mux.add(Methods::Write, root, "{}/evaluate", submit_own, |call| {
        Box::pin(where_body_says(call, SUBMIT, register::evaluate))
    });
    mux.add(Methods::Get, root, "{}/allocations", read_job, |call| Box::pin(allocations(call)));
    mux.add(Methods::Get, root, "{}/evaluations", read_job, |call| Box::pin(evaluations(call)));
    mux.add(Methods::Write, root, "{}/plan", late_submit, |call| Box::pin(plan::plan(call)));
    mux.add(Methods::Any, root, "{}/summary", late_read, |call| Box::pin(summary(call)));
    mux.add(Methods::Write, root, "{}/dispatch", Capability::Object(DISPATCH), |call| {
        Box::pin(where_body_says(call, DISPATCH, dispatch::dispatch))
    });
    mux.add(Methods::Any, root, "{}/versions", late_read, |call| Box::pin(versions(call)));
    mux.add(Methods::Write, root, "{}/revert", submit_own, |call| {
        Box::pin(where_body_says(call, SUBMIT, register::revert))
    });
    mux.add(Methods::Get, root, "{}/deployments", read_job, |call| Box::pin(deployments(call)));
    mux.add(Methods::Get, root, "{}/deployment", read_job, |call| Box::pin(deployment(call)));
    mux.add(Methods::Write, root, "{}/stable", submit_own, |call| {
        Box::pin(where_body_says(call, SUBMIT, register::stable))
    });
    mux.add(
        Methods::Get,
        root,
        "{}/scale",
        Capability::Namespace(&[NamespaceCapability::ReadJob, NamespaceCapability::ReadJobScaling]),
        |call| Box::pin(scale::status(call)),
    );
    mux.add(Methods::Write, root, "{}/scale", Capability::Late(&SCALE), |call| Box::pin(scale::scale(call)));
    mux.add(Methods::Write, root, "{}/periodic/force", FORCE, |call| Box::pin(periodic::force(call)));
    mux.add(Methods::Get, root, "{}/services", read_job, |call| Box::pin(services(call)));
    mux.add(Methods::Any, root, "{}/submission", late_read, |call| Box::pin(submission(call)));
    mux.add(Methods::Get, root, "{}", read_job, |call| Box::pin(read(call)));
    mux.add(Methods::Write, root, "{}", late_submit, |call| Box::pin(register::update(call)));
    mux.add(Methods::Delete, root, "{}", Capability::Late(&Capability::Namespace(SUBMIT)), |call| {
        Box::pin(stop::deregister(call))
    });
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let meta = wants_meta(&call)?;
    let params = call.read_params()?;
    list_where(&call, &params, meta, |_| true).await
}

/// Whether a list of jobs is to have their metadata.
pub(super) fn wants_meta<S>(call: &Call<S>) -> Result<bool, ApiError> {
    Ok(call.query().boolean("meta")?.unwrap_or(false))
}

/// List of the jobs that `wanted` accepts, with their metadata if `meta` says so.
pub(super) async fn list_where<S: Reads>(
    call: &Call<S>,
    params: &ReadParams,
    meta: bool,
    wanted: impl Fn(&Job) -> bool,
) -> Result<Response, ApiError> {
    let keys = [WatchKey::Table(Table::Jobs), WatchKey::Table(Table::JobSummary)];
    let found = blocking::run(call, params, &keys, |view| {
        let token = |job: &Job| Token::Spaced(job.namespace.to_string(), job.id.to_string());
        let caller = call.caller()?;
        let keep = |job: &Job| wanted(job) && caller.acl().namespace(&job.namespace, NamespaceCapability::ListJobs);
        let page = paging::page(params, rows(view, params).into_iter(), token, keep)?;
        let rows = page.rows.into_iter().map(|job| {
            let summary = view.job_summary(&job.namespace, &job.id).cloned();
            (job, summary)
        });
        let index = view.table_index(Table::Jobs).max(view.table_index(Table::JobSummary));
        Ok(At { index, value: (rows.collect::<Vec<_>>(), page.next_token) })
    })
    .await?;
    let (rows, next_token) = found.value;
    let stubs: Vec<_> = rows.iter().map(|(job, summary)| JobStub::new(job, summary.as_deref(), meta)).collect();
    call.read(&Meta::page(found.index, next_token), &stubs)
}

fn rows(view: &State, params: &ReadParams) -> Vec<Arc<Job>> {
    if params.all_namespaces() {
        return view.jobs().filter(|job| job.id.starts_with(&params.prefix)).cloned().collect();
    }
    view.jobs_with_prefix(&params.namespace, &params.prefix).cloned().collect()
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::Job(key.clone())], |view| {
        let row = view.job_by_key(&key).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::Jobs), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(job) => call.read(&Meta::at(found.index), &*job),
        None => Err(ApiError::missing("job not found", found.index)),
    }
}

/// Whether rows of an earlier job with the same id are wanted, too.
fn all<S>(call: &Call<S>) -> bool {
    // Other texts than booleans are ignored.
    parse_bool(&call.query().text("all")).unwrap_or(false)
}

async fn allocations<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let all = all(&call);
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::JobAllocs(key.clone())], |view| {
        let created = view.job_by_key(&key).map(|job| job.create_index);
        let of_this_job = |job: Option<&Arc<Job>>| created.is_none() || job.map(|job| job.create_index) == created;
        let rows = view.allocs_of_job(&key.namespace, &key.id).filter(|alloc| all || of_this_job(alloc.job.as_ref()));
        let rows: StubList = rows.cloned().collect();
        Ok(At { index: view.table_index(Table::Allocs), value: rows })
    })
    .await?;
    call.read(&Meta::at(found.index), &stubs(&found.value, AllocFields::default()))
}

async fn evaluations<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::JobEvals(key.clone())], |view| {
        let mut rows: Vec<_> = view.evals_of_job(&key.namespace, &key.id).collect();
        // Nomad's order, in which clients see lists of an imported job.
        rows.sort_by_key(|row| (row.status.as_str(), row.id));
        Ok(At { index: view.table_index(Table::Evals), value: rows })
    })
    .await?;
    call.read(&Meta::at(found.index), &found.value)
}

async fn deployments<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let all = all(&call);
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::JobDeployments(key.clone())], |view| {
        let created = view.job_by_key(&key).map(|job| job.create_index);
        let rows = view.deployments_of_job(&key.namespace, &key.id);
        let mut rows: Vec<_> =
            rows.filter(|row| all || created.is_none_or(|created| row.job_create_index == created)).cloned().collect();
        rows.sort_by_key(|row| row.id);
        Ok(At { index: view.table_index(Table::Deployment), value: rows })
    })
    .await?;
    call.read(&Meta::at(found.index), &found.value)
}

async fn deployment<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::JobDeployments(key.clone())], |view| {
        let row = view.latest_deployment(&key.namespace, &key.id).cloned();
        Ok(At { index: view.table_index(Table::Deployment), value: row })
    })
    .await?;
    call.read(&Meta::at(found.index), &found.value)
}

async fn summary<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::JobSummary(key.clone())], |view| {
        let row = view.job_summary(&key.namespace, &key.id).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::JobSummary), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("job not found", found.index)),
    }
}

async fn versions<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let diffs = call.query().boolean("diffs")?.unwrap_or(false);
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::Job(key.clone())], |view| {
        let rows = view.job_versions(&key.namespace, &key.id);
        let index = rows.first().map_or_else(|| view.table_index(Table::JobVersion), |row| row.modify_index);
        Ok(At { index, value: rows })
    })
    .await?;
    if found.value.is_empty() {
        return Err(ApiError::missing("job versions not found", found.index));
    }
    let meta = call.query_meta(found.index);
    let versions: Vec<&Job> = found.value.iter().map(|job| &**job).collect();
    let diffs = (diffs && versions.len() > 1).then(|| plan::diffs(&versions)).transpose()?;
    let versions = versions.into_iter().map(version).collect();
    call.read(&Meta::at(found.index), &JobVersionsResponse { versions, diffs, meta })
}

async fn submission<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let version = parse_uint(&call.query().text("version"));
    let version = version.map_err(|_| ApiError::bad_request("Unable to parse job submission version parameter"))?;
    if call.method != axum::http::Method::GET {
        return Err(ApiError::method());
    }
    let params = call.read_params()?;
    let key = key(&call, &params);
    let found = blocking::run(&call, &params, &[WatchKey::Job(key.clone())], |view| {
        let row = view.job_submission(&key.namespace, &key.id, version).cloned();
        Ok(At { index: row.as_ref().map_or(0, |row| row.job_modify_index), value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("job source not found", found.index)),
    }
}

/// Service registrations of a job's allocations.
async fn services<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let key = key(&call, &params);
    super::service_registration::of_job(&call, &params, &key).await
}
