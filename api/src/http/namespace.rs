//! Namespaces: list, read, create, delete. Writes happen in the authoritative region: see `region`.

use std::sync::Arc;

use axum::response::Response;
use blake2::{Blake2b, Digest};
use songline_commands::{DeleteNamespaces, UpsertNamespaces};
use songline_events::watch::WatchKey;
use songline_lang::go_json;
use songline_model::{Blob, JobStatus, Namespace, Str};
use songline_projections::Table;

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::quote;
use crate::server::{Reads, Regions, Writes};

/// Longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 256;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Query of one job that is not dead: `Status != "dead"`.
pub(super) const LIVE_JOBS: &str = "per_page=1&filter=Status+%21%3D+%22dead%22";

pub(super) fn routes<S: Writes + Regions>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/namespaces", "", Capability::Filtered, |call| Box::pin(list(call)));
    let management = Capability::Late(&Capability::Management);
    mux.add(Methods::Write, "/v1/namespace", "", management, |call| Box::pin(create(call)));
    mux.add(Methods::Get, "/v1/namespace/", "{}", Capability::Filtered, |call| Box::pin(read(call)));
    mux.add(Methods::Write, "/v1/namespace/", "{}", management, |call| Box::pin(update(call)));
    mux.add(Methods::Delete, "/v1/namespace/", "{}", management, |call| Box::pin(delete(call)));
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Namespaces)], |view| {
        let caller = call.caller()?;
        let shown =
            |row: &&Arc<Namespace>| row.name.starts_with(&params.prefix) && caller.acl().any_in_namespace(&row.name);
        let rows: Vec<Arc<Namespace>> = view.namespaces().filter(shown).cloned().collect();
        Ok(At { index: view.table_index(Table::Namespaces).max(1), value: rows })
    })
    .await?;
    call.read(&Meta::at(found.index), &found.value)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let params = call.read_params()?;
    call.require(|acl| acl.any_in_namespace(&name))?;
    let keys = [WatchKey::Named(Table::Namespaces, name.clone())];
    let found = blocking::run(&call, &params, &keys, |view| {
        let row = view.namespace(&name).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::Namespaces), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("Namespace not found", found.index)),
    }
}

async fn create<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body = call.bytes().await?;
    write(&call, &body, None).await
}

async fn update<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let body = call.bytes().await?;
    write(&call, &body, Some(name)).await
}

async fn write<S: Writes>(call: &Call<S>, body: &[u8], path_name: Option<Str>) -> Result<Response, ApiError> {
    if body.is_empty() {
        return Err(ApiError::bad_request("Request body is empty"));
    }
    let mut namespace: Namespace =
        go_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    if path_name.is_some_and(|name| namespace.name != *name) {
        return Err(ApiError::bad_request("Namespace name does not match request path"));
    }
    call.write_namespace()?;
    admit(&namespace)?;
    namespace.hash = Some(Blob(hash(&namespace)));
    let written = call.propose(UpsertNamespaces { namespaces: vec![namespace] }).await?;
    Ok(empty_written(written.index))
}

async fn delete<S: Writes + Regions>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    call.write_namespace()?;
    if name == songline_model::DEFAULT_NAMESPACE {
        return Err(ApiError::internal("can not delete default namespace"));
    }
    let regions = regions_with_jobs(&call, &name).await?;
    if !regions.is_empty() {
        let text = format!("namespace {} has non-terminal jobs in regions: [{}]", quote(&name), regions.join(" "));
        return Err(ApiError::internal(multi_error(&[text])));
    }
    // The namespace is not deleted, and yet the reference reports success: clients rely on it.
    if call.view().csi_volumes_in(&name).next().is_some() {
        return Ok(empty_written(call.view().applied_index()));
    }
    let written = call.propose(DeleteNamespaces { names: vec![name.as_str().into()] }).await?;
    Ok(empty_written(written.index))
}

fn required_name<S>(call: &Call<S>) -> Result<Str, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("Missing Namespace Name")),
        name => Ok(Str::new(name)),
    }
}

/// Regions with jobs of a namespace that are not dead, among this one and those that take their namespaces from it.
async fn regions_with_jobs<S: Reads + Regions>(call: &Call<S>, namespace: &str) -> Result<Vec<String>, ApiError> {
    let mut regions = Vec::new();
    if call.view().jobs_in(namespace).any(|job| job.status != JobStatus::Dead) {
        regions.push(call.server.info().region.clone());
    }
    let live = format!("namespace={namespace}&{LIVE_JOBS}");
    for region in call.server.following_regions() {
        if !call.rows_in(&region, "/v1/jobs", &live).await?.is_empty() {
            regions.push(region);
        }
    }
    Ok(regions)
}

/// Refuses an invalid namespace.
fn admit(namespace: &Namespace) -> Result<(), ApiError> {
    let name = &namespace.name;
    let mut errors = refusals(name, &namespace.description);
    if namespace.node_pool_configuration.is_some() {
        errors.push("invalid node pool configuration: Node Pools Governance is unlicensed.".to_owned());
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::internal(format!("Invalid namespace {}: {}", quote(name), multi_error(&errors))))
}

/// Reasons why a name and a description are refused, for namespaces and quotas.
pub(super) fn refusals(name: &str, description: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let valid = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !valid {
        errors.push(format!("invalid name {}. Must match regex ^[a-zA-Z0-9-]{{1,128}}$", quote(name)));
    }
    if description.len() > DESCRIPTION_BYTES_MAX {
        errors.push(format!("description longer than {DESCRIPTION_BYTES_MAX}"));
    }
    errors
}

/// BLAKE2b-256 of all strings, concatenated.
fn hash(namespace: &Namespace) -> Vec<u8> {
    let mut hasher = Blake2b::<blake2::digest::consts::U32>::new();
    hasher.update(namespace.name.as_bytes());
    hasher.update(namespace.description.as_bytes());
    hasher.update(namespace.quota.as_bytes());
    if let Some(capabilities) = &namespace.capabilities {
        for driver in capabilities.enabled_task_drivers.iter().chain(&capabilities.disabled_task_drivers).flatten() {
            hasher.update(driver.as_bytes());
        }
    }
    for (key, value) in namespace.meta.iter().flatten() {
        hasher.update(key.as_bytes());
        hasher.update(value.as_bytes());
    }
    hasher.finalize().to_vec()
}

/// Several errors as one text.
pub(super) fn multi_error(errors: &[String]) -> String {
    let head =
        if errors.len() == 1 { "1 error occurred:".to_owned() } else { format!("{} errors occurred:", errors.len()) };
    let lines: String = errors.iter().map(|error| format!("\n\t* {error}")).collect();
    format!("{head}{lines}\n\n")
}
