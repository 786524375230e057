//! Service registrations: by name, by job, by allocation; choosing among them; deregistering one. Nodes register
//! services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::response::Response;
use md5::{Digest, Md5};
use serde::Serialize;
use songline_commands::DeleteServiceRegistration;
use songline_events::watch::WatchKey;
use songline_model::{AllocId, JobKey, ServiceRegistration};
use songline_projections::{State, Table};

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::http::params::ReadParams;
use crate::server::{Reads, Writes};
use songline_lang::acl::NamespaceCapability;

/// Every list has the index of the whole table, so it changes with any registration.
const KEYS: [WatchKey; 1] = [WatchKey::Table(Table::ServiceRegistrations)];

type Rows = Vec<Arc<ServiceRegistration>>;

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    let root = "/v1/service/";
    // Nodes and tasks look up services to find each other.
    const LOOK_UP: Capability =
        Capability::OrWorkload(&Capability::OrNode(&Capability::Namespace(&[NamespaceCapability::ReadJob])));
    const TAKE_BACK: Capability = Capability::OrNode(&Capability::Namespace(&[NamespaceCapability::SubmitJob]));
    // A wrong path is told before the rights are checked.
    mux.add(Methods::Get, "/v1/services", "", Capability::Filtered, |call| Box::pin(list(call)));
    mux.add(Methods::Get, root, "{}", Capability::Late(&LOOK_UP), |call| Box::pin(read(call)));
    mux.add(Methods::Delete, root, "{}", Capability::Late(&TAKE_BACK), |call| Box::pin(delete(call)));
}

/// Services of one namespace in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct NamespaceServices<'a> {
    namespace: &'a str,
    services: Vec<ServiceStub<'a>>,
}

/// Name and tags of a service in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ServiceStub<'a> {
    service_name: &'a str,
    tags: BTreeSet<&'a str>,
}

fn index(view: &State) -> u64 {
    view.table_index(Table::ServiceRegistrations).max(1)
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let caller = call.caller()?;
        let sees = |namespace: &str| {
            let of_cluster = caller.is_node() || caller.is_workload();
            of_cluster || caller.acl().namespace(namespace, NamespaceCapability::ReadJob)
        };
        if !params.all_namespaces() && !sees(&params.namespace) {
            return Err(denied());
        }
        let shown = |row: &&Arc<ServiceRegistration>| params.in_namespace(&row.namespace) && sees(&row.namespace);
        let rows: Rows = view.service_registrations().filter(shown).cloned().collect();
        Ok(At { index: index(view), value: rows })
    })
    .await?;
    let mut names: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for row in &found.value {
        let tags = names.entry(&row.namespace).or_default().entry(&row.service_name).or_default();
        tags.extend(row.tags.iter().map(|tag| tag.as_str()));
    }
    let stubs = |services: BTreeMap<_, _>| {
        services.into_iter().map(|(service_name, tags)| ServiceStub { service_name, tags }).collect()
    };
    let answer: Vec<_> = names
        .into_iter()
        .map(|(namespace, services)| NamespaceServices { namespace, services: stubs(services) })
        .collect();
    call.read(&Meta::at(found.index), &answer)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    if call.id().is_empty() {
        return Err(ApiError::bad_request("missing service name"));
    }
    // Only services are read, and only single registrations are deleted.
    match call.id().split('/').count() {
        1 => {}
        2 => return Err(ApiError::method()),
        _ => return Err(ApiError::bad_request("invalid URI")),
    }
    let params = call.read_params()?;
    let choose = call.query().text("choose").into_owned();
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let rows: Rows = view.registrations_of_service(&params.namespace, call.id()).cloned().collect();
        let token = |row: &ServiceRegistration| Token::Spaced(row.namespace.to_string(), row.id.to_string());
        let mut page = paging::page(&params, rows.into_iter(), token, |_| true)?;
        if !choose.is_empty() {
            page.rows = chosen(page.rows, &choose)?;
        }
        Ok(At { index: index(view), value: page })
    })
    .await?;
    call.read(&Meta::page(found.index, found.value.next_token), &found.value.rows)
}

/// Registrations that `<number>|<key>` chooses: always the same ones for the same key while they exist, spread evenly
/// over all keys.
fn chosen(rows: Rows, choose: &str) -> Result<Rows, ApiError> {
    let malformed =
        || ApiError::bad_request("failed to choose services: Parameter for choose must be in form '<number>|<key>'");
    let (number, key) = choose.split_once('|').filter(|(_, key)| !key.is_empty()).ok_or_else(malformed)?;
    let number: usize = number.parse().map_err(|_| malformed())?;
    let mut ranked: Vec<([u8; 16], Arc<ServiceRegistration>)> =
        rows.into_iter().map(|row| (rank(&row, key), row)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok(ranked.into_iter().take(number).map(|(_, row)| row).collect())
}

/// Rank of a registration for a key. Clients depend on the order, so the hash equals the reference's byte for byte.
fn rank(row: &ServiceRegistration, key: &str) -> [u8; 16] {
    let mut hash = Md5::new();
    hash.update(row.port.to_be_bytes());
    let alloc_id = row.alloc_id.to_string();
    for text in [&*alloc_id, &*row.id, &*row.namespace, &*row.address, &*row.service_name] {
        hash.update(text);
    }
    for tag in &row.tags {
        hash.update(tag.as_str());
    }
    hash.update(key);
    hash.finalize().into()
}

async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let mut parts = call.id().split('/');
    let id = match (parts.next(), parts.next(), parts.next()) {
        (Some(""), None, _) | (None, _, _) => return Err(ApiError::bad_request("missing service name")),
        (Some(_), None, _) => return Err(ApiError::method()),
        (Some(_), Some(_), Some(_)) => return Err(ApiError::bad_request("invalid URI")),
        (Some(""), Some(_), None) => return Err(ApiError::bad_request("missing service name")),
        (Some(_), Some(""), None) => return Err(ApiError::bad_request("missing service id")),
        (Some(_), Some(id), None) => id,
    };
    let namespace = call.write_namespace()?;
    let written =
        call.propose(DeleteServiceRegistration { namespace: namespace.as_str().into(), id: id.into() }).await?;
    Ok(empty_written(written.index))
}

/// Registrations of a job's allocations.
pub(super) async fn of_job<S: Reads>(call: &Call<S>, params: &ReadParams, key: &JobKey) -> Result<Response, ApiError> {
    let found = blocking::run(call, params, &[KEYS[0].clone(), WatchKey::Job(key.clone())], |view| {
        let rows = view
            .job_by_key(key)
            .map(|_| view.service_registrations_of_job(&key.namespace, &key.id).cloned().collect::<Rows>());
        Ok(At { index: index(view), value: rows })
    })
    .await?;
    match found.value {
        Some(rows) => call.read(&Meta::at(found.index), &rows),
        None => Err(ApiError::missing("job not found", 0)),
    }
}

/// Registrations of an allocation, if it is in the request's namespace.
pub(super) async fn of_alloc<S: Reads>(call: &Call<S>, params: &ReadParams, id: AllocId) -> Result<Response, ApiError> {
    let found = blocking::run(call, params, &KEYS, |view| {
        let caller = call.caller()?;
        let shown = |namespace: &str| {
            params.in_namespace(namespace) && caller.acl().namespace(namespace, NamespaceCapability::ReadJob)
        };
        let alloc = view.alloc(id).filter(|alloc| shown(&alloc.namespace));
        // Each registration is checked in its own namespace.
        let rows = alloc.map(|_| {
            view.service_registrations_of_alloc(id).filter(|row| shown(&row.namespace)).cloned().collect::<Rows>()
        });
        Ok(At { index: index(view), value: rows })
    })
    .await?;
    match found.value {
        Some(rows) => call.read(&Meta::at(found.index), &rows),
        None => Err(ApiError::not_found("allocation not found")),
    }
}

#[cfg(test)]
mod tests;
