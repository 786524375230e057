//! Allocations: list, read, stop; restart and signal through their node.

mod checks;

use std::sync::Arc;

use axum::response::Response;
use serde::Deserialize;
use songline_commands::SetDesiredTransitions;
use songline_events::watch::WatchKey;
use songline_lang::bexpr::{Filter, PlainNames};
use songline_lang::go_json;
use songline_model::{AllocId, Allocation, DesiredTransition, EvalId, EvalStatus, EvalTrigger, Evaluation, Str};
use songline_projections::{State, Table};
use songline_rpc::NodeAgent;
use songline_wire::alloc::{AllocFields, AllocStub, AllocView, LegacyResources};
use songline_wire::responses::{AllocStopResponse, WriteMeta};

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty};
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::http::params::{ReadParams, parse_bool, quote};
use crate::server::{Nodes, Reads, Writes};
use songline_lang::acl::{Acl, NamespaceCapability};

/// Rows of a list that answers show as stubs.
pub(super) type StubList = Vec<Arc<Allocation>>;

pub(super) fn routes<S: Writes + Nodes>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/allocations", "", Capability::Namespace(&[NamespaceCapability::ReadJob]), |call| {
        Box::pin(list(call))
    });
    mux.add(
        Methods::Write,
        "/v1/allocation/",
        "{}/stop",
        Capability::Object(&[NamespaceCapability::AllocLifecycle]),
        |call| Box::pin(stop(call)),
    );
    mux.add(
        Methods::Any,
        "/v1/allocation/",
        "{}/checks",
        Capability::Object(&[NamespaceCapability::ReadJob]),
        |call| Box::pin(checks::read(call)),
    );
    mux.add(
        Methods::Get,
        "/v1/allocation/",
        "{}/services",
        Capability::Namespace(&[NamespaceCapability::ReadJob]),
        |call| Box::pin(services(call)),
    );
    mux.add(
        Methods::Get,
        "/v1/allocation/",
        "{}",
        Capability::OrNode(&Capability::Object(&[NamespaceCapability::ReadJob])),
        |call| Box::pin(read(call)),
    );
    mux.add(Methods::Any, "/v1/allocation/", "{}", Capability::Anyone, |call| {
        // An unknown verb is told before a wrong method.
        let error = if call.id().contains('/') { resource_not_found() } else { ApiError::method() };
        Box::pin(std::future::ready(Err(error)))
    });
    let root = "/v1/client/allocation/";
    mux.add(Methods::Any, root, "{}/stats", Capability::Object(&[NamespaceCapability::ReadJob]), |call| {
        Box::pin(stats(call))
    });
    mux.add(Methods::Any, root, "{}/checks", Capability::Object(&[NamespaceCapability::ReadJob]), |call| {
        Box::pin(checks::read(call))
    });
    mux.add(Methods::Any, root, "{}/restart", Capability::Object(&[NamespaceCapability::AllocLifecycle]), |call| {
        Box::pin(restart(call))
    });
    mux.add(Methods::Write, root, "{}/signal", Capability::Object(&[NamespaceCapability::AllocLifecycle]), |call| {
        Box::pin(signal(call))
    });
    mux.add(Methods::Any, root, "{}/gc", Capability::Object(&[NamespaceCapability::SubmitJob]), |call| {
        Box::pin(collect(call))
    });
    mux.add(Methods::Any, root, "{}", Capability::Anyone, |_| Box::pin(std::future::ready(Err(resource_not_found()))));
}

/// Converts rows to stubs.
pub(super) fn stubs(rows: &StubList, fields: AllocFields) -> Vec<AllocStub<'_>> {
    rows.iter().map(|alloc| AllocStub::new(alloc, fields)).collect()
}

/// Allocations of an evaluation or a deployment that the caller may read. Each is checked in its own namespace: the
/// evaluation or deployment may be deleted already, and then only the allocation names a namespace.
pub(super) fn readable<'v>(acl: &Acl, rows: impl Iterator<Item = &'v Arc<Allocation>>) -> StubList {
    rows.filter(|row| acl.namespace(&row.namespace, NamespaceCapability::ReadJob)).cloned().collect()
}

fn list_fields<S>(call: &Call<S>) -> Result<AllocFields, ApiError> {
    let query = call.query();
    let resources = query.boolean("resources")?;
    let task_states = query.boolean("task_states")?;
    Ok(AllocFields { resources: resources.unwrap_or(false), task_states: task_states.unwrap_or(true) })
}

/// Names of the fields of an allocation that are strings or integers.
const NAMES: PlainNames<'_> = PlainNames {
    texts: &[
        "ID",
        "EvalID",
        "Name",
        "Namespace",
        "NodeID",
        "NodeName",
        "JobID",
        "TaskGroup",
        "DesiredStatus",
        "ClientStatus",
        "DeploymentID",
    ],
    integers: &["CreateIndex", "ModifyIndex", "AllocModifyIndex", "CreateTime", "ModifyTime"],
};

/// Largest number of rows from an index that are sorted. Walking the whole table in order is cheaper for more rows.
const ORDERED_MAX: usize = 20_000;

/// Rows of a list, in its order.
fn rows<'v>(view: &'v State, params: &ReadParams) -> Result<Box<dyn Iterator<Item = Arc<Allocation>> + 'v>, ApiError> {
    if !params.prefix.is_empty() {
        let prefix = ids::prefix(&params.prefix).map_err(|error| lookup_failed(&error))?;
        return Ok(paging::ordered(params, view.allocs_with_prefix(&prefix).cloned()));
    }
    let filter = paging::parse_filter(&params.filter)?;
    if let Some(mut narrowed) = filter.and_then(|filter| narrowed(view, params, &filter)) {
        narrowed.sort_by_key(|alloc| (alloc.create_index, alloc.id));
        return Ok(paging::ordered(params, narrowed.into_iter()));
    }
    Ok(match (paging::first_index(params), params.reverse) {
        (None, _) => paging::ordered(params, view.allocs().cloned()),
        (Some(first), false) => Box::new(view.allocs_in((first, AllocId::NIL)..).cloned()),
        (Some(first), true) => Box::new(view.allocs_in(..=(first, AllocId::from_bytes([0xff; 16]))).rev().cloned()),
    })
}

/// Rows from an index that covers a condition of the filter, in no order. `None`: no index helps, or there are too
/// many rows.
fn narrowed(view: &State, params: &ReadParams, filter: &Filter) -> Option<StubList> {
    let demands = filter.demands(NAMES);
    let demand = |name: &str| {
        demands.iter().find(|(field, literal)| *field == name && !literal.is_empty()).map(|(_, literal)| *literal)
    };
    let asked = Some(params.namespace.as_str()).filter(|_| !params.all_namespaces());
    let bounded = |rows: &mut dyn Iterator<Item = &Arc<Allocation>>| {
        let rows: StubList = rows.take(ORDERED_MAX + 1).cloned().collect();
        (rows.len() <= ORDERED_MAX).then_some(rows)
    };
    // A text that is no id matches no row.
    macro_rules! by_id {
        ($name:literal, $of:expr) => {
            if let Some(text) = demand($name) {
                let rows = text.parse().ok().map_or(Some(StubList::new()), |id| bounded(&mut $of(id).into_iter()));
                if rows.is_some() {
                    return rows;
                }
            }
        };
    }
    by_id!("ID", |id| view.alloc(id));
    by_id!("EvalID", |id| view.allocs_of_eval(id));
    by_id!("NodeID", |id| view.allocs_of_node(id));
    by_id!("DeploymentID", |id| view.allocs_of_deployment(id));
    let (job, namespace) = (demand("JobID")?, asked.or_else(|| demand("Namespace"))?);
    bounded(&mut view.allocs_of_job(namespace, job))
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let fields = list_fields(&call)?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Allocs)], |view| {
        let token = |alloc: &Allocation| match params.prefix.as_str() {
            "" => Token::Indexed(alloc.create_index, alloc.id.to_string()),
            _ => Token::Text(alloc.id.to_string()),
        };
        let caller = call.caller()?;
        let keep = |alloc: &Allocation| {
            params.in_namespace(&alloc.namespace)
                && caller.acl().namespace(&alloc.namespace, NamespaceCapability::ReadJob)
        };
        let matches = |filter: &Filter, alloc: &Allocation| {
            filter.matches_beside(alloc, &LegacyResources::NAMES, || LegacyResources::new(alloc))
        };
        let page = paging::page_by(&params, rows(view, &params)?, token, keep, matches)?;
        Ok(At { index: view.table_index(Table::Allocs), value: page })
    })
    .await?;
    let meta = Meta::page(found.index, found.value.next_token.clone());
    call.read(&meta, &stubs(&found.value.rows, fields))
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    if call.id().contains('/') {
        return Err(resource_not_found());
    }
    let params = call.read_params()?;
    let id = alloc_id(call.id())?;
    let found = blocking::run(&call, &params, &[WatchKey::Alloc(id)], |view| {
        let row = view.alloc(id).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::Allocs), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    let caller = call.caller()?;
    let shown =
        |alloc: &Allocation| caller.is_node() || caller.acl().namespace(&alloc.namespace, NamespaceCapability::ReadJob);
    match found.value {
        // Clients rely on this text, although the allocation exists.
        Some(alloc) if !shown(&alloc) => Err(ApiError::internal(format!("Unknown allocation \"{id}\""))),
        Some(alloc) => call.read(&Meta::at(found.index), &AllocView::new(&alloc)),
        None => Err(ApiError::missing("alloc not found", found.index)),
    }
}

async fn stop<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    if call.id().contains('/') {
        return Err(resource_not_found());
    }
    call.write_namespace()?;
    let query = call.query();
    let delay = query.text("no_shutdown_delay");
    let no_shutdown_delay = parse_bool(if delay.is_empty() { "false" } else { &delay }).ok_or_else(|| {
        // The reference's error text has this stray byte.
        let reason = format!("strconv.ParseBool: parsing {}: invalid syntax", quote(&delay));
        ApiError::internal(format!("no_shutdown_delay\u{1} value is not a boolean: {reason}"))
    })?;
    let id = alloc_id(call.id())?;
    let view = call.view();
    let alloc = view.alloc(id).ok_or_else(|| ApiError::not_found("allocation not found"))?;
    call.require_in(&alloc.namespace, &[NamespaceCapability::AllocLifecycle])?;
    let now = call.server.now();
    let job = view.job(&alloc.namespace, &alloc.job_id).or(alloc.job.as_ref());
    let eval = Evaluation {
        id: EvalId::from(call.fresh_uuid()),
        namespace: alloc.namespace.clone(),
        priority: alloc.job.as_ref().map_or(50, |job| job.priority),
        kind: alloc.job.as_ref().map(|job| job.kind.clone()).unwrap_or_default(),
        triggered_by: EvalTrigger::AllocStop,
        job_id: alloc.job_id.clone(),
        job_modify_index: job.map_or(0, |job| job.modify_index),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    };
    let eval_id = eval.id;
    let transition = DesiredTransition {
        migrate: Some(true),
        no_shutdown_delay: Some(no_shutdown_delay),
        ..DesiredTransition::default()
    };
    let written = call.propose(SetDesiredTransitions { allocs: [(id, transition)].into(), evals: vec![eval] }).await?;
    call.written(written.index, &AllocStopResponse { eval_id, index: written.index })
}

async fn stats<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let (id, agent) = agent_of(&call, call.id(), &[NamespaceCapability::ReadJob])?;
    let task = call.query().text("task").into_owned();
    let json = agent.alloc_stats(id, &task).await?;
    Ok(raw_json(json))
}

/// Service registrations of an allocation.
async fn services<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    if call.id().contains('/') {
        return Err(resource_not_found());
    }
    let params = call.read_params()?;
    let id = alloc_id(call.id())?;
    super::service_registration::of_alloc(&call, &params, id).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase", rename = "")]
struct RestartRequest {
    task_name: Str,
    all_tasks: bool,
}

async fn restart<S: Reads + Nodes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body = call.bytes().await?;
    let request = if body.is_empty() {
        RestartRequest::default()
    } else {
        // The reference reads this body into an unnamed type.
        let names =
            go_json::Names { root: Some("struct { TaskName string; AllTasks bool }"), ..go_json::Names::default() };
        go_json::from_slice_named(&body, names).map_err(|error| ApiError::internal(error.to_string()))?
    };
    let (id, agent) = agent_of(&call, call.id(), &[NamespaceCapability::AllocLifecycle])?;
    agent.alloc_restart(id, &request.task_name, request.all_tasks).await?;
    call.plain(&WriteMeta::default())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase", rename = "AllocSignalRequest")]
struct SignalRequest {
    task: Str,
    signal: Str,
}

async fn signal<S: Reads + Nodes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let names = go_json::Names { root: Some("structs.AllocSignalRequest"), ..go_json::Names::default() };
    let request: SignalRequest = call.json_named(names).await.map_err(|error| match error.code {
        axum::http::StatusCode::BAD_REQUEST => ApiError::bad_request(format!("Failed to decode body: {}", error.text)),
        _ => error,
    })?;
    let (id, agent) = agent_of(&call, call.id(), &[NamespaceCapability::AllocLifecycle])?;
    agent.alloc_signal(id, &request.task, &request.signal).await?;
    call.plain(&WriteMeta::default())
}

async fn collect<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let (id, agent) = agent_of(&call, call.id(), &[NamespaceCapability::SubmitJob])?;
    agent.alloc_gc(id).await?;
    Ok(empty())
}

/// The allocation of a request and its node's agent, for a caller with one of these capabilities in the allocation's
/// namespace.
pub(super) fn agent_of<S: Reads + Nodes>(
    call: &Call<S>,
    text: &str,
    capabilities: &[NamespaceCapability],
) -> Result<(AllocId, Arc<S::Node>), ApiError> {
    if text.contains('/') {
        return Err(resource_not_found());
    }
    let unknown = || ApiError::not_found(format!("Unknown allocation \"{text}\""));
    let id = alloc_id(text)?;
    let view = call.view();
    let alloc = view.alloc(id).ok_or_else(unknown)?;
    call.require_in(&alloc.namespace, capabilities)?;
    let node = alloc.node_id.ok_or_else(unknown)?;
    let agent = call.server.node_agent(node, call.secret()).ok_or_else(|| ApiError::not_found("No path to node"))?;
    Ok((id, agent))
}

fn raw_json(json: bytes::Bytes) -> Response {
    let mut response = Response::new(axum::body::Body::from(json));
    let media = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, media);
    response
}

pub(super) fn alloc_id(text: &str) -> Result<AllocId, ApiError> {
    Ok(ids::exact(text).map_err(|error| lookup_failed(&error))?.map(AllocId::from).unwrap_or_default())
}

fn lookup_failed(error: &str) -> ApiError {
    ApiError::internal(format!("alloc lookup failed: index error: {error}"))
}

fn resource_not_found() -> ApiError {
    ApiError::not_found("resource not found")
}

#[cfg(test)]
mod tests;
