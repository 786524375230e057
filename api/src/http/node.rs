//! Nodes: list and read, allocations on them, drain, eligibility, purge.

use std::sync::Arc;

use axum::response::Response;
use songline_commands::{DeregisterNode, UpdateEvals, UpdateNodeDrain, UpdateNodeEligibility};
use songline_events::watch::WatchKey;
use songline_lang::go_json::Names;
use songline_model::{Allocation, DrainStrategy, Eligibility, EvalId, Evaluation, Node, NodeEvent, NodeId, Str};
use songline_projections::{State, Table};
use songline_wire::alloc::AllocView;
use songline_wire::node::{NodeFields, NodeStub, NodeUpdateDrainRequest, NodeUpdateEligibilityRequest, NodeView};
use songline_wire::responses::{NodeChangeResponse, NodeServerInfo, NodeUpdateResponse, QueryMeta};

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::server::{Agent, Cluster, Reads, Writes};
use songline_lang::acl::{Access, NamespaceCapability};

pub(super) fn routes<S: Writes + Cluster>(mux: &mut Mux<S>) {
    // Bodies and own parameters are told before the rights are checked.
    let (late_read, late_write) =
        (Capability::Late(&Capability::Node(Access::Read)), Capability::Late(&Capability::Node(Access::Write)));
    mux.add(Methods::Get, "/v1/nodes", "", late_read, |call| Box::pin(list(call)));
    mux.add(Methods::Write, "/v1/node/", "{}/evaluate", Capability::Node(Access::Write), |call| {
        Box::pin(evaluate(call))
    });
    mux.add(Methods::Get, "/v1/node/", "{}/allocations", Capability::Node(Access::Read), |call| {
        Box::pin(allocations(call))
    });
    mux.add(Methods::Write, "/v1/node/", "{}/drain", late_write, |call| Box::pin(drain(call)));
    mux.add(Methods::Write, "/v1/node/", "{}/eligibility", late_write, |call| Box::pin(eligibility(call)));
    mux.add(Methods::Write, "/v1/node/", "{}/purge", Capability::Node(Access::Write), |call| Box::pin(purge(call)));
    mux.add(Methods::Get, "/v1/node/", "{}", Capability::OrNode(&Capability::Node(Access::Read)), |call| {
        Box::pin(read(call))
    });
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let fields = list_fields(&call)?;
    let params = call.read_params()?;
    let prefix = ids::prefix(&params.prefix).map_err(|error| lookup_failed(&error))?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Nodes)], |view| {
        let rows = view.nodes_with_prefix(&prefix).cloned();
        let page = paging::page(&params, rows, |node| Token::Text(node.id.to_string()), |_| true)?;
        Ok(At { index: view.table_index(Table::Nodes), value: page })
    })
    .await?;
    let stubs: Vec<_> = found.value.rows.iter().map(|node| NodeStub::new(node, fields)).collect();
    call.read(&Meta::page(found.index, found.value.next_token.clone()), &stubs)
}

/// Optional fields of a list of nodes.
pub(super) fn list_fields<S: Reads>(call: &Call<S>) -> Result<NodeFields, ApiError> {
    let read = |name: &str| {
        let found = call.query().boolean(name);
        found.map_err(|error| ApiError::bad_request(format!("Failed to parse node list fields: {}", error.text)))
    };
    Ok(NodeFields { resources: read("resources")?.unwrap_or(false), os: read("os")?.unwrap_or(false) })
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    if call.id().is_empty() {
        return Err(ApiError::internal("missing node ID"));
    }
    let id = node_id(call.id())?;
    let keys = [WatchKey::Node(id)];
    let found = blocking::run(&call, &params, &keys, |view| {
        let row = view.node(id).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::Nodes), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(node) => call.read(&Meta::at(found.index), &NodeView::new(&node)),
        None => Err(ApiError::missing("node not found", found.index)),
    }
}

async fn allocations<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    // A text that is no id has no allocations.
    let id = ids::exact(call.id()).ok().flatten().map(NodeId::from).unwrap_or_default();
    let found = blocking::run(&call, &params, &[WatchKey::NodeAllocs(id)], |view| {
        let caller = call.caller()?;
        let shown = |row: &&Arc<Allocation>| caller.acl().namespace(&row.namespace, NamespaceCapability::ReadJob);
        // As in Nomad, allocations that the caller may not read count too.
        let newest = view.allocs_of_node(id).map(|alloc| alloc.modify_index).max();
        let mut rows: Vec<Arc<Allocation>> = view.allocs_of_node(id).filter(shown).cloned().collect();
        // Live allocations first, as in Nomad.
        rows.sort_by_key(|alloc| (alloc.terminal(), alloc.id));
        Ok(At { index: newest.unwrap_or_else(|| view.table_index(Table::Allocs).max(1)), value: rows })
    })
    .await?;
    let views: Vec<_> = found.value.iter().map(|alloc| AllocView::new(alloc)).collect();
    call.read(&Meta::at(found.index), &views)
}

async fn evaluate<S: Writes + Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let id = node_id(call.id())?;
    let view = call.view();
    let node = view.node(id).ok_or_else(node_not_found)?;
    let evals = node_evals(&call, &view, node, node.modify_index);
    let (eval_ids, index) = write_evals(&call, evals).await?;
    let answer = NodeUpdateResponse {
        eval_ids,
        eval_create_index: index,
        leader_rpc_addr: call.server.leader_addr(),
        num_nodes: view.nodes().count() as u64,
        servers: Some(servers(&*call.server)),
        scheduling_eligibility: Str::new_static(node.scheduling_eligibility.as_str()),
        meta: QueryMeta::written(index),
        ..NodeUpdateResponse::default()
    };
    if index == 0 { call.nothing_to_write(0, &answer).await } else { call.written(index, &answer) }
}

fn servers<S: Cluster>(server: &S) -> Vec<NodeServerInfo> {
    let datacenter = &server.info().datacenter;
    let info = |addr| NodeServerInfo {
        rpc_advertise_addr: addr,
        rpc_major_version: 1,
        rpc_minor_version: 1,
        datacenter: datacenter.clone(),
    };
    server.peer_addrs().into_iter().map(info).collect()
}

async fn drain<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: NodeUpdateDrainRequest = call.json_named(Names { package: "api", ..Names::default() }).await?;
    call.write_namespace()?;
    let id = node_id(call.id())?;
    let view = call.view();
    let node = view.node(id).ok_or_else(node_not_found)?;
    let now = call.server.now();
    let strategy = request.drain_spec.map(|spec| DrainStrategy {
        deadline: spec.deadline,
        ignore_system_jobs: spec.ignore_system_jobs,
        force_deadline: (spec.deadline.nanos() > 0).then(|| now.plus(spec.deadline)),
        started_at: node.drain_strategy.as_ref().and_then(|running| running.started_at).or(Some(now)),
    });
    let message = match (&node.drain_strategy, &strategy) {
        (None, Some(_)) => Some("Node drain strategy set"),
        (Some(_), Some(_)) => Some("Node drain strategy updated"),
        (Some(_), None) => Some("Node drain disabled"),
        (None, None) => None,
    };
    let command = UpdateNodeDrain {
        node_id: id,
        drain_strategy: strategy,
        mark_eligible: request.mark_eligible,
        event: message.map(|message| node_event("Drain", message, now)),
        updated_at: now.into(),
        meta: request.meta,
        updated_by: call.caller()?.actor().drained_by(),
    };
    let written = call.propose(command).await?;
    let view = call.view_after(written.index).await;
    let became_eligible = request.mark_eligible && view.node(id).is_some_and(|after| became_eligible(node, after));
    let evals = match view.node(id).filter(|_| became_eligible) {
        Some(after) => node_evals(&call, &view, after, written.index),
        None => Vec::new(),
    };
    let (eval_ids, eval_index) = write_evals(&call, evals).await?;
    let index = written.index;
    call.written(
        index,
        &NodeChangeResponse { node_modify_index: index, eval_ids, eval_create_index: eval_index, index },
    )
}

async fn eligibility<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: NodeUpdateEligibilityRequest = call.json().await?;
    call.write_namespace()?;
    if request.node_event.is_some_and(|event| !event.is_null()) {
        return Err(ApiError::internal("node event must not be set"));
    }
    let Some(wanted) = Eligibility::from_word(&request.eligibility) else {
        return Err(ApiError::internal(format!("invalid scheduling eligibility {:?}", request.eligibility.as_str())));
    };
    let id = node_id(if request.node_id.is_empty() { call.id() } else { &request.node_id })?;
    let view = call.view();
    let node = view.node(id).ok_or_else(node_not_found)?;
    if node.drain_strategy.is_some() && wanted == Eligibility::Eligible {
        return Err(ApiError::internal("can not set node's scheduling eligibility to eligible while it is draining"));
    }
    if node.scheduling_eligibility == wanted {
        return call.nothing_to_write(0, &NodeChangeResponse::default()).await;
    }
    let now = call.server.now();
    let message = match wanted {
        Eligibility::Eligible => "Node marked as eligible for scheduling",
        Eligibility::Ineligible => "Node marked as ineligible for scheduling",
    };
    let event = Some(node_event("Cluster", message, now));
    let command = UpdateNodeEligibility { node_id: id, eligibility: wanted, event, updated_at: now.into() };
    let written = call.propose(command).await?;
    let view = call.view_after(written.index).await;
    let evals = match view.node(id).filter(|after| became_eligible(node, after)) {
        Some(after) => node_evals(&call, &view, after, written.index),
        None => Vec::new(),
    };
    let (eval_ids, eval_index) = write_evals(&call, evals).await?;
    let index = if eval_index > 0 { eval_index } else { written.index };
    call.written(index, &NodeChangeResponse { node_modify_index: 0, eval_ids, eval_create_index: eval_index, index })
}

async fn purge<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let id = node_id(call.id())?;
    let view = call.view();
    let node = view.node(id).ok_or_else(node_not_found)?;
    let written = call.propose(DeregisterNode { node_id: id }).await?;
    let evals = node_evals(&call, &view, node, written.index);
    let (eval_ids, eval_create_index) = write_evals(&call, evals).await?;
    let answer = NodeUpdateResponse {
        eval_ids,
        eval_create_index,
        node_modify_index: written.index,
        meta: QueryMeta::written(written.index),
        ..NodeUpdateResponse::default()
    };
    call.written(written.index, &answer)
}

fn node_id(text: &str) -> Result<NodeId, ApiError> {
    // A malformed id of the right length names no node.
    Ok(ids::exact(text).map_err(|error| lookup_failed(&error))?.map(NodeId::from).unwrap_or_default())
}

fn lookup_failed(error: &str) -> ApiError {
    ApiError::internal(format!("node lookup failed: index error: {error}"))
}

fn node_not_found() -> ApiError {
    ApiError::internal("node not found")
}

fn became_eligible(before: &Node, after: &Node) -> bool {
    before.scheduling_eligibility == Eligibility::Ineligible && after.scheduling_eligibility == Eligibility::Eligible
}

fn node_event(subsystem: &'static str, message: &'static str, at: songline_model::Time) -> NodeEvent {
    NodeEvent {
        message: Str::new_static(message),
        subsystem: Str::new_static(subsystem),
        timestamp: Some(at),
        ..NodeEvent::default()
    }
}

fn node_evals<S: Agent>(call: &Call<S>, view: &State, node: &Node, index: u64) -> Vec<Evaluation> {
    songline_projections::node_evals(view, node, index, call.server.now(), || EvalId::from(call.fresh_uuid()))
}

/// Writes evaluations, if there are any. Returns their ids and their index.
async fn write_evals<S: Writes>(
    call: &Call<S>,
    evals: Vec<Evaluation>,
) -> Result<(Option<Vec<EvalId>>, u64), ApiError> {
    if evals.is_empty() {
        return Ok((None, 0));
    }
    let ids = evals.iter().map(|eval| eval.id).collect();
    let written = call.propose(UpdateEvals { evals }).await?;
    Ok((Some(ids), written.index))
}
