//! Node pools: list, read, create, delete, and lists of their nodes and jobs.

use std::sync::Arc;

use axum::response::Response;
use blake2::{Blake2b, Digest};
use songline_commands::{DeleteNodePools, UpsertNodePools};
use songline_events::watch::WatchKey;
use songline_model::{ALL_NODE_POOL, Blob, DEFAULT_NODE_POOL, Job, JobStatus, NodePool, Str};
use songline_projections::Table;
use songline_wire::node::NodeStub;

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::job;
use crate::http::mux::{Methods, Mux};
use crate::http::namespace::{LIVE_JOBS, multi_error};
use crate::http::node;
use crate::http::paging::{self, Token};
use crate::http::params::quote;
use crate::server::{Reads, Regions, Writes};
use songline_lang::acl::{Access, NodePoolCapability};

/// Longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 256;

pub(super) fn routes<S: Writes + Regions>(mux: &mut Mux<S>) {
    const READ: Capability = Capability::NodePool(NodePoolCapability::Read);
    const WRITE: Capability = Capability::NodePool(NodePoolCapability::Write);
    mux.add(Methods::Get, "/v1/node/pools", "", Capability::Filtered, |call| Box::pin(list(call)));
    // Bodies and own parameters are told before the rights are checked.
    let write = Capability::Late(&WRITE);
    mux.add(Methods::Write, "/v1/node/pools", "", write, |call| Box::pin(create(call)));
    mux.add(Methods::Get, "/v1/node/pool/", "{}/nodes", Capability::Late(&Capability::Node(Access::Read)), |call| {
        Box::pin(list_nodes(call))
    });
    mux.add(Methods::Get, "/v1/node/pool/", "{}/jobs", Capability::Late(&READ), |call| Box::pin(list_jobs(call)));
    mux.add(Methods::Get, "/v1/node/pool/", "{}", READ, |call| Box::pin(read(call)));
    mux.add(Methods::Write, "/v1/node/pool/", "{}", write, |call| Box::pin(update(call)));
    mux.add(Methods::Delete, "/v1/node/pool/", "{}", Capability::NodePool(NodePoolCapability::Delete), |call| {
        Box::pin(delete(call))
    });
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::NodePools)], |view| {
        let mut rows: Vec<Arc<NodePool>> = view.node_pools().cloned().collect();
        if params.reverse {
            rows.reverse();
        }
        let token = |pool: &NodePool| Token::Text(pool.name.to_string());
        let caller = call.caller()?;
        let keep = |pool: &NodePool| {
            pool.name.starts_with(&params.prefix) && caller.acl().node_pool(&pool.name, NodePoolCapability::Read)
        };
        let page = paging::page(&params, rows.into_iter(), token, keep)?;
        Ok(At { index: view.table_index(Table::NodePools).max(1), value: page })
    })
    .await?;
    call.read(&Meta::page(found.index, found.value.next_token), &found.value.rows)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let name = Str::new(call.id());
    let keys = [WatchKey::Named(Table::NodePools, name.clone())];
    let found = blocking::run(&call, &params, &keys, |view| {
        let row = view.node_pool(&name).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::NodePools).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("node pool not found", found.index)),
    }
}

async fn create<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let pool = call.json().await?;
    write(&call, pool).await
}

async fn update<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let pool: NodePool = call.json().await?;
    if pool.name != *call.id() {
        return Err(ApiError::bad_request("Node pool name does not match request path"));
    }
    write(&call, pool).await
}

async fn write<S: Writes>(call: &Call<S>, mut pool: NodePool) -> Result<Response, ApiError> {
    call.write_namespace()?;
    call.require(|acl| acl.node_pool(&pool.name, NodePoolCapability::Write))?;
    admit(&pool)?;
    pool.hash = Some(Blob(hash(&pool)));
    let written = call.propose(UpsertNodePools { node_pools: vec![pool] }).await?;
    Ok(empty_written(written.index))
}

async fn delete<S: Writes + Regions>(call: Call<S>) -> Result<Response, ApiError> {
    let name = call.id();
    if name.is_empty() {
        return Err(ApiError::bad_request("node pool name is empty"));
    }
    let (view, own) = (call.view(), call.server.info().region.clone());
    let (mut with_jobs, mut with_nodes) = (Vec::new(), Vec::new());
    if view.jobs().any(|job| job.node_pool == *name && job.status != JobStatus::Dead) {
        with_jobs.push(own.clone());
    }
    if view.nodes().any(|node| node.node_pool == *name) {
        with_nodes.push(own);
    }
    for region in call.server.following_regions() {
        let (jobs, nodes) = (format!("/v1/node/pool/{name}/jobs"), format!("/v1/node/pool/{name}/nodes"));
        if !call.rows_in(&region, &jobs, &format!("namespace=*&{LIVE_JOBS}")).await?.is_empty() {
            with_jobs.push(region.clone());
        }
        if !call.rows_in(&region, &nodes, "per_page=1").await?.is_empty() {
            with_nodes.push(region);
        }
    }
    let mut errors = Vec::new();
    for (what, regions) in [("non-terminal jobs", with_jobs), ("nodes", with_nodes)] {
        if !regions.is_empty() {
            errors.push(format!("node pool {} has {what} in regions: [{}]", quote(name), regions.join(" ")));
        }
    }
    if !errors.is_empty() {
        return Err(ApiError::internal(multi_error(&errors)));
    }
    let written = call.propose(DeleteNodePools { names: vec![name.into()] }).await?;
    Ok(empty_written(written.index))
}

async fn list_nodes<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    refuse_prefix(&call)?;
    let fields = node::list_fields(&call)?;
    let params = call.read_params()?;
    let pool = Str::new(call.id());
    call.require(|acl| acl.node_pool(&pool, NodePoolCapability::Read))?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Nodes)], |view| {
        if view.node_pool(&pool).is_none() {
            return Ok(At { index: 0, value: paging::Page { rows: Vec::new(), next_token: None } });
        }
        let rows = view.nodes_in_pool(&pool).cloned();
        let page = paging::page(&params, rows, |node| Token::Text(node.id.to_string()), |_| true)?;
        Ok(At { index: view.table_index(Table::Nodes).max(1), value: page })
    })
    .await?;
    let stubs: Vec<_> = found.value.rows.iter().map(|node| NodeStub::new(node, fields)).collect();
    call.read(&Meta::page(found.index, found.value.next_token.clone()), &stubs)
}

async fn list_jobs<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    refuse_prefix(&call)?;
    let meta = job::wants_meta(&call)?;
    let params = call.read_params()?;
    let pool = Str::new(call.id());
    if call.view().node_pool(&pool).is_none() {
        let index = call.view().table_index(Table::NodePools).max(1);
        return Err(ApiError::missing("node pool not found", index));
    }
    job::list_where(&call, &params, meta, |job: &Job| job.node_pool == *pool).await
}

/// Refuses a prefix, which lists of one pool do not take.
fn refuse_prefix<S>(call: &Call<S>) -> Result<(), ApiError> {
    if call.query().text("prefix").is_empty() {
        return Ok(());
    }
    Err(ApiError::bad_request("prefix argument not allowed"))
}

/// Refuses an invalid node pool.
fn admit(pool: &NodePool) -> Result<(), ApiError> {
    let name = &pool.name;
    let mut errors = Vec::new();
    let valid = (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !valid {
        errors.push(format!("invalid name {}, must match regex ^[a-zA-Z0-9-_]{{1,128}}$", quote(name)));
    }
    if pool.description.len() > DESCRIPTION_BYTES_MAX {
        errors.push(format!("description longer than {DESCRIPTION_BYTES_MAX}"));
    }
    if !errors.is_empty() {
        return Err(ApiError::bad_request(format!("invalid node pool {}: {}", quote(name), multi_error(&errors))));
    }
    if *name == ALL_NODE_POOL || *name == DEFAULT_NODE_POOL {
        return Err(ApiError::bad_request(format!("modifying node pool \"{name}\" is not allowed")));
    }
    if pool.scheduler_configuration.is_some() {
        return Err(ApiError::internal("Feature \"Node Pools Governance\" is unlicensed"));
    }
    Ok(())
}

/// BLAKE2b-256 of all strings, concatenated.
fn hash(pool: &NodePool) -> Vec<u8> {
    let mut hasher = Blake2b::<blake2::digest::consts::U32>::new();
    hasher.update(pool.name.as_bytes());
    hasher.update(pool.description.as_bytes());
    for (key, value) in pool.meta.iter().flatten() {
        hasher.update(key.as_bytes());
        hasher.update(value.as_bytes());
    }
    hasher.finalize().to_vec()
}
