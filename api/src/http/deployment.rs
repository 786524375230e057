//! Deployments: list, read, fail, pause, promote, set health. Automatic promotion is the leader's.

use std::sync::Arc;

use axum::response::Response;
use songline_commands::{PromoteDeployment, SetDeploymentAllocHealth, UpdateDeploymentStatus};
use songline_events::watch::WatchKey;
use songline_lang::go_json::Names;
use songline_model::{
    AllocId, Deployment, DeploymentId, DeploymentStatus, DeploymentStatusUpdate, EvalId, EvalStatus, EvalTrigger,
    Evaluation, Str,
};
use songline_projections::{Rollback, State, Table};
use songline_wire::alloc::AllocFields;
use songline_wire::deployment::{
    DeploymentAllocHealthRequest, DeploymentPauseRequest, DeploymentPromoteRequest, DeploymentUnblockRequest,
};
use songline_wire::responses::DeploymentUpdateResponse;

use crate::error::ApiError;
use crate::http::alloc::{readable, stubs};
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::http::params::ReadParams;
use crate::server::{Agent, Reads, Writes};
use songline_lang::acl::NamespaceCapability;

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    let (root, submit, read_job) = (
        "/v1/deployment/",
        Capability::Object(&[NamespaceCapability::SubmitJob]),
        Capability::Namespace(&[NamespaceCapability::ReadJob]),
    );
    mux.add(Methods::Get, "/v1/deployments", "", read_job, |call| Box::pin(list(call)));
    mux.add(Methods::Get, root, "allocations/{}", read_job, |call| Box::pin(allocations(call)));
    mux.add(Methods::Write, root, "fail/{}", submit, |call| Box::pin(fail(call)));
    mux.add(Methods::Write, root, "pause/{}", submit, |call| Box::pin(pause(call)));
    mux.add(Methods::Write, root, "allocation-health/{}", submit, |call| Box::pin(allocation_health(call)));
    mux.add(Methods::Write, root, "unblock/{}", submit, |call| Box::pin(unblock(call)));
    mux.add(Methods::Write, root, "promote/{}", submit, |call| Box::pin(promote(call)));
    mux.add(Methods::Get, root, "{}", read_job, |call| Box::pin(read(call)));
}

/// Rows of a list, in its order.
fn rows<'v>(view: &'v State, params: &ReadParams) -> Result<Box<dyn Iterator<Item = Arc<Deployment>> + 'v>, ApiError> {
    if !params.prefix.is_empty() {
        let prefix =
            ids::prefix(&params.prefix).map_err(|error| ApiError::internal(format!("index error: {error}")))?;
        return Ok(paging::ordered(params, view.deployments_with_prefix(&prefix).cloned()));
    }
    Ok(paging::ordered(params, view.deployments().cloned()))
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Deployment)], |view| {
        let token = |row: &Deployment| match params.prefix.as_str() {
            "" => Token::Indexed(row.create_index, row.id.to_string()),
            _ => Token::Text(row.id.to_string()),
        };
        let caller = call.caller()?;
        let keep = |row: &Deployment| {
            params.in_namespace(&row.namespace) && caller.acl().namespace(&row.namespace, NamespaceCapability::ReadJob)
        };
        let page = paging::page(&params, rows(view, &params)?, token, keep)?;
        Ok(At { index: view.table_index(Table::Deployment), value: page })
    })
    .await?;
    call.read(&Meta::page(found.index, found.value.next_token), &found.value.rows)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let id = deployment_id(call.id())?;
    let found = blocking::run(&call, &params, &[WatchKey::Deployment(id)], |view| {
        // A deployment in a namespace that the caller may not read is answered like a missing one.
        let caller = call.caller()?;
        let shown = |row: &&Arc<Deployment>| caller.acl().namespace(&row.namespace, NamespaceCapability::ReadJob);
        let row = view.deployment(id).filter(shown).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::Deployment), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("deployment not found", found.index)),
    }
}

async fn allocations<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let id = ids::exact(call.id()).map_err(|error| ApiError::internal(format!("index error: {error}")))?;
    let id = id.map(DeploymentId::from).unwrap_or_default();
    let found = blocking::run(&call, &params, &[WatchKey::DeploymentAllocs(id)], |view| {
        if let Some(deployment) = view.deployment(id) {
            call.require_in(&deployment.namespace, &[NamespaceCapability::ReadJob])?;
        }
        let rows = readable(call.caller()?.acl(), view.allocs_of_deployment(id));
        Ok(At { index: view.table_index(Table::Allocs), value: rows })
    })
    .await?;
    call.read(&Meta::at(found.index), &stubs(&found.value, AllocFields::default()))
}

async fn fail<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let view = call.view();
    let deployment = active(&call, &view, deployment_id(call.id())?, "can't fail terminal deployment")?;
    let rollback = reverts(deployment, |_| true).then(|| view.rollback(deployment));
    let (job, description) = Rollback::outcome(rollback, "Deployment marked as failed");
    let reverted_job_version = job.as_ref().map(|job| job.version);
    let eval = eval_of(&call, &view, deployment);
    let eval_id = eval.id;
    let command = UpdateDeploymentStatus {
        update: status(deployment.id, DeploymentStatus::Failed, description),
        eval: Some(eval),
        job,
        versions_max: call.server.info().job_tracked_versions,
    };
    let index = call.propose(command).await?.index;
    call.written(index, &DeploymentUpdateResponse::at(index, Some(eval_id), reverted_job_version))
}

async fn pause<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let request: DeploymentPauseRequest = call.json().await?;
    check_body_id(&request.deployment_id, call.id())?;
    let view = call.view();
    let refusal = if request.pause { "can't pause terminal deployment" } else { "can't resume terminal deployment" };
    let deployment = active(&call, &view, deployment_id(call.id())?, refusal)?;
    let (to, description) = if request.pause {
        (DeploymentStatus::Paused, "Deployment is paused")
    } else {
        (DeploymentStatus::Running, "Deployment is running")
    };
    let eval = (!request.pause).then(|| eval_of(&call, &view, deployment));
    let eval_id = eval.as_ref().map(|eval| eval.id);
    let command = UpdateDeploymentStatus {
        update: status(deployment.id, to, description.to_owned()),
        eval,
        job: None,
        versions_max: call.server.info().job_tracked_versions,
    };
    let index = call.propose(command).await?.index;
    call.written(index, &DeploymentUpdateResponse::at(index, eval_id, None))
}

async fn promote<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let names = Names { package: "structs", ..Names::default() };
    let request: DeploymentPromoteRequest = call.json_named(names).await?;
    check_body_id(&request.deployment_id, call.id())?;
    let view = call.view();
    let deployment = active(&call, &view, deployment_id(call.id())?, "can't promote terminal deployment")?;
    let eval = eval_of(&call, &view, deployment);
    let eval_id = eval.id;
    let groups = request.groups.unwrap_or_default();
    let command = PromoteDeployment { deployment_id: deployment.id, all: request.all, groups, eval: Some(eval) };
    let index = call.propose(command).await?.index;
    call.written(index, &DeploymentUpdateResponse::at(index, Some(eval_id), None))
}

async fn allocation_health<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let request: DeploymentAllocHealthRequest = call.json().await?;
    check_body_id(&request.deployment_id, call.id())?;
    let (healthy, unhealthy) =
        (request.healthy_allocation_ids.unwrap_or_default(), request.unhealthy_allocation_ids.unwrap_or_default());
    if healthy.is_empty() && unhealthy.is_empty() {
        return Err(ApiError::internal("must specify at least one healthy/unhealthy allocation ID"));
    }
    let view = call.view();
    let refusal = "can't set health of allocations for a terminal deployment";
    let deployment = active(&call, &view, deployment_id(call.id())?, refusal)?;
    let (healthy, unhealthy) = (alloc_ids(&healthy)?, alloc_ids(&unhealthy)?);
    let groups: Vec<Str> = unhealthy.iter().filter_map(|id| Some(view.alloc(*id)?.task_group.clone())).collect();
    let rollback = reverts(deployment, |group| groups.contains(group)).then(|| view.rollback(deployment));
    // As in Nomad, a failure by reported health does not say that there is no stable version.
    let rollback = rollback.filter(|rollback| !matches!(rollback, Rollback::NoStable));
    let (job, description) = Rollback::outcome(rollback, "Failed due to unhealthy allocations");
    let reverted_job_version = job.as_ref().map(|job| job.version);
    let update = (!unhealthy.is_empty()).then(|| status(deployment.id, DeploymentStatus::Failed, description));
    let eval = eval_of(&call, &view, deployment);
    let eval_id = eval.id;
    let command = SetDeploymentAllocHealth {
        deployment_id: deployment.id,
        healthy,
        unhealthy,
        timestamp: call.server.now(),
        update,
        eval: Some(eval),
        job,
        versions_max: call.server.info().job_tracked_versions,
    };
    let index = call.propose(command).await?.index;
    call.written(index, &DeploymentUpdateResponse::at(index, Some(eval_id), reverted_job_version))
}

/// Moves a deployment of several regions on, which waits for the others. Any other waits for nothing.
async fn unblock<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let request: DeploymentUnblockRequest = call.json().await?;
    check_body_id(&request.deployment_id, call.id())?;
    let view = call.view();
    let deployment = active(&call, &view, deployment_id(call.id())?, "can't unblock terminal deployment")?;
    if deployment.status == DeploymentStatus::Initializing {
        return Err(ApiError::internal("can't unblock initializing deployment: its evaluation has not run yet"));
    }
    let Some((to, description)) = deployment.unblocked() else {
        return call.nothing_to_write(0, &DeploymentUpdateResponse::default()).await;
    };
    let eval = eval_of(&call, &view, deployment);
    let eval_id = eval.id;
    let command = UpdateDeploymentStatus {
        update: status(deployment.id, to, description.to_owned()),
        eval: Some(eval),
        job: None,
        versions_max: call.server.info().job_tracked_versions,
    };
    let index = call.propose(command).await?.index;
    call.written(index, &DeploymentUpdateResponse::at(index, Some(eval_id), None))
}

fn deployment_id(text: &str) -> Result<DeploymentId, ApiError> {
    if text.is_empty() {
        return Err(ApiError::internal("missing deployment ID"));
    }
    let id = ids::exact(text)
        .map_err(|error| ApiError::internal(format!("deployment lookup failed: index error: {error}")))?;
    Ok(id.map(DeploymentId::from).unwrap_or_default())
}

fn alloc_ids(texts: &[Str]) -> Result<Vec<AllocId>, ApiError> {
    let read = |text: &Str| {
        let id = ids::exact(text).map_err(|error| {
            ApiError::internal(format!("alloc {:?} lookup failed: index error: {error}", text.as_str()))
        })?;
        id.map(AllocId::from).ok_or_else(|| ApiError::internal(format!("unknown alloc {:?}", text.as_str())))
    };
    texts.iter().map(read).collect()
}

fn check_body_id(in_body: &str, in_path: &str) -> Result<(), ApiError> {
    if in_body.is_empty() {
        return Err(ApiError::bad_request("DeploymentID must be specified"));
    }
    if in_body != in_path {
        return Err(ApiError::bad_request("Deployment ID does not match"));
    }
    Ok(())
}

/// The active deployment `id`, for a caller that may change it.
fn active<'a, S>(
    call: &Call<S>,
    view: &'a State,
    id: DeploymentId,
    refusal: &'static str,
) -> Result<&'a Arc<Deployment>, ApiError> {
    let deployment = view.deployment(id).ok_or_else(|| ApiError::internal("deployment not found"))?;
    call.require_in(&deployment.namespace, &[NamespaceCapability::SubmitJob])?;
    if deployment.is_active() { Ok(deployment) } else { Err(ApiError::internal(refusal)) }
}

fn status(deployment_id: DeploymentId, status: DeploymentStatus, description: String) -> DeploymentStatusUpdate {
    DeploymentStatusUpdate { deployment_id, status, status_description: description.into() }
}

/// Whether one of the `in_question` groups has `auto_revert`.
fn reverts(deployment: &Deployment, in_question: impl Fn(&Str) -> bool) -> bool {
    deployment.task_groups.iter().flatten().any(|(name, group)| group.auto_revert && in_question(name))
}

fn eval_of<S: Agent>(call: &Call<S>, view: &State, deployment: &Deployment) -> Evaluation {
    let job = view.job(&deployment.namespace, &deployment.job_id);
    let priority = match deployment.eval_priority {
        0 => job.map_or(50, |job| job.priority),
        priority => priority,
    };
    let now = call.server.now();
    Evaluation {
        id: EvalId::from(call.fresh_uuid()),
        namespace: deployment.namespace.clone(),
        priority,
        kind: job.map(|job| job.kind.clone()).unwrap_or_default(),
        triggered_by: EvalTrigger::DeploymentWatcher,
        job_id: deployment.job_id.clone(),
        deployment_id: Some(deployment.id),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    }
}
