//! The answering side: requests of nodes to this server.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use songline_model::{NodeId, NodeStatus, Secret};

use super::{ServeError, ServerContext};
use crate::message::{
    AllocGetAllocs, AllocGetAllocsAnswer, AllocReport, Call, NodeClientAllocs, NodeDeriveVaultToken, NodeEmitEvents,
    NodeGetClientAllocs, NodeRegister, NodeServerInfo, NodeUpdate, NodeUpdateAlloc, NodeUpdateStatus, RecoverableError,
    ServiceDelete, ServiceUpsert, VaultTokens, WireAlloc, Written,
};
use crate::{BlockingQuery, NodeAuth, NodeUpdateResponse, RpcError, Servers, msgpack};

/// The methods that [`serve_servers`] answers.
pub const SERVED: [&str; 9] = [
    NodeRegister::METHOD,
    NodeUpdateStatus::METHOD,
    NodeGetClientAllocs::METHOD,
    AllocGetAllocs::METHOD,
    NodeUpdateAlloc::METHOD,
    ServiceUpsert::METHOD,
    ServiceDelete::METHOD,
    NodeDeriveVaultToken::METHOD,
    NodeEmitEvents::METHOD,
];

/// Answers a request's body with that of its answer. The caller has checked the region, forwarding, and whether this
/// node may call at all.
pub async fn serve_servers<S: Servers>(
    servers: &S,
    context: &impl ServerContext,
    method: &str,
    body: &[u8],
) -> Result<Vec<u8>, ServeError> {
    match method {
        NodeRegister::METHOD => encode(register(servers, context, decode(body)?).await?),
        NodeUpdateStatus::METHOD => encode(update_status(servers, context, decode(body)?).await?),
        NodeGetClientAllocs::METHOD => encode(get_client_allocs(servers, decode(body)?).await?),
        AllocGetAllocs::METHOD => encode(get_allocs(servers, context, decode(body)?).await?),
        NodeUpdateAlloc::METHOD => encode(update_alloc(servers, decode(body)?).await?),
        ServiceUpsert::METHOD => encode(upsert_services(servers, context, decode(body)?).await?),
        ServiceDelete::METHOD => encode(delete_service(servers, context, decode(body)?).await?),
        NodeDeriveVaultToken::METHOD => encode(derive_vault_token(servers, decode(body)?).await?),
        NodeEmitEvents::METHOD => encode(emit_events(servers, decode(body)?).await?),
        other => Err(ServeError::Unknown(other.to_owned())),
    }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ServeError> {
    msgpack::from_slice(body).map_err(ServeError::Decode)
}

fn encode(answer: impl Serialize) -> Result<Vec<u8>, ServeError> {
    msgpack::to_vec(&answer).map_err(|error| RpcError::remote(error.to_string()).into())
}

async fn register<S: Servers>(
    servers: &S,
    context: &impl ServerContext,
    request: NodeRegister,
) -> Result<NodeUpdate, RpcError> {
    let node = request.node.ok_or_else(|| RpcError::remote("missing node for client registration"))?;
    Ok(update(context, servers.node_register(node).await?))
}

async fn update_status<S: Servers>(
    servers: &S,
    context: &impl ServerContext,
    request: NodeUpdateStatus,
) -> Result<NodeUpdate, RpcError> {
    if request.node_id.is_nil() {
        return Err(RpcError::remote("missing node ID for client status update"));
    }
    let status = NodeStatus::from_word(&request.status).ok_or_else(|| RpcError::remote("invalid status for node"))?;
    let from = NodeAuth { id: request.node_id, secret: request.auth_token };
    Ok(update(context, servers.node_update_status(&from, status).await?))
}

async fn get_client_allocs<S: Servers>(
    servers: &S,
    request: NodeGetClientAllocs,
) -> Result<NodeClientAllocs, RpcError> {
    if request.node_id.is_nil() {
        return Err(RpcError::remote("missing node ID"));
    }
    if request.secret_id.is_empty() {
        return Err(RpcError::remote("missing node secret ID for client status update"));
    }
    let from = NodeAuth { id: request.node_id, secret: request.secret_id };
    let query = BlockingQuery { min_index: request.min_query_index, max_wait: request.max_query_time };
    let answer = servers.node_get_client_allocs(&from, query).await?;
    Ok(NodeClientAllocs {
        allocs: Some(answer.allocs),
        migrate_tokens: Some(answer.migrate_tokens),
        index: answer.index,
        known_leader: true,
        ..NodeClientAllocs::default()
    })
}

async fn get_allocs<S: Servers>(
    servers: &S,
    context: &impl ServerContext,
    request: AllocGetAllocs,
) -> Result<AllocGetAllocsAnswer, RpcError> {
    let from = by_secret(context, request.auth_token)?;
    let query = BlockingQuery { min_index: request.min_query_index, max_wait: request.max_query_time };
    let ids = request.alloc_ids.unwrap_or_default();
    let (allocs, index) = servers.alloc_get_newer_allocs(&from, ids, query).await?;
    Ok(AllocGetAllocsAnswer {
        allocs: Some(allocs.into_iter().map(WireAlloc).collect()),
        index,
        known_leader: true,
        ..AllocGetAllocsAnswer::default()
    })
}

async fn update_alloc<S: Servers>(servers: &S, request: NodeUpdateAlloc) -> Result<Written, RpcError> {
    let reports = request.alloc.unwrap_or_default();
    if reports.is_empty() {
        return Err(RpcError::remote("must update at least one allocation"));
    }
    let mut by_node: BTreeMap<NodeId, Vec<AllocReport>> = BTreeMap::new();
    for report in reports {
        by_node.entry(report.node_id).or_default().push(report);
    }
    let mut index = 0;
    for (id, allocs) in by_node {
        let from = NodeAuth { id, secret: request.auth_token.clone() };
        index = index.max(servers.node_update_alloc(&from, allocs).await?);
    }
    Ok(Written { index })
}

async fn upsert_services<S: Servers>(
    servers: &S,
    context: &impl ServerContext,
    request: ServiceUpsert,
) -> Result<Written, RpcError> {
    let from = by_secret(context, request.auth_token)?;
    let index = servers.service_registration_upsert(&from, request.services.unwrap_or_default()).await?;
    Ok(Written { index })
}

async fn delete_service<S: Servers>(
    servers: &S,
    context: &impl ServerContext,
    request: ServiceDelete,
) -> Result<Written, RpcError> {
    let from = by_secret(context, request.auth_token)?;
    let index = servers.service_registration_delete_by_id(&from, request.namespace, request.id).await?;
    Ok(Written { index })
}

async fn derive_vault_token<S: Servers>(servers: &S, request: NodeDeriveVaultToken) -> Result<VaultTokens, RpcError> {
    if request.secret_id.is_empty() {
        return Err(RpcError::remote("missing node secret ID"));
    }
    let from = NodeAuth { id: request.node_id, secret: request.secret_id };
    let derived = servers.node_derive_vault_token(&from, request.alloc_id, request.tasks.unwrap_or_default()).await?;
    // What keeps tasks from having a token is part of the answer, so that the node knows whether to ask again.
    let (tasks, error) = match derived {
        Ok(tasks) => (Some(tasks), None),
        Err(error) => (None, Some(RecoverableError { err: error.why, recoverable: error.recoverable })),
    };
    Ok(VaultTokens { tasks, error, known_leader: true, ..VaultTokens::default() })
}

async fn emit_events<S: Servers>(servers: &S, request: NodeEmitEvents) -> Result<Written, RpcError> {
    let events = request.node_events.unwrap_or_default();
    if events.is_empty() {
        return Err(RpcError::remote("no node events given"));
    }
    let mut index = 0;
    for (id, events) in events {
        let from = NodeAuth { id, secret: request.auth_token.clone() };
        index = index.max(servers.node_emit_events(&from, events.unwrap_or_default()).await?);
    }
    Ok(Written { index })
}

/// The calling node, for a request that does not name it.
fn by_secret(context: &impl ServerContext, secret: Secret) -> Result<NodeAuth, RpcError> {
    let known = (!secret.is_empty()).then(|| context.node_of(&secret)).flatten();
    let id = known.ok_or_else(|| RpcError::remote("Permission denied"))?;
    Ok(NodeAuth { id, secret })
}

fn update(context: &impl ServerContext, answer: NodeUpdateResponse) -> NodeUpdate {
    let datacenter = context.datacenter();
    let server = |rpc_advertise_addr| NodeServerInfo {
        rpc_advertise_addr,
        datacenter: datacenter.clone(),
        ..NodeServerInfo::default()
    };
    NodeUpdate {
        heartbeat_ttl: answer.heartbeat_ttl,
        node_modify_index: answer.index,
        leader_rpc_addr: context.leader_rpc_addr(),
        num_nodes: i32::try_from(answer.nodes).unwrap_or(i32::MAX),
        servers: Some(answer.servers.into_iter().map(server).collect()),
        scheduling_eligibility: answer.eligibility.as_str().into(),
        index: answer.index,
        ..NodeUpdate::default()
    }
}
