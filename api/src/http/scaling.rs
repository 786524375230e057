//! Scaling policies: list and read. They are written and dropped with the jobs that contain them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use songline_events::watch::WatchKey;
use songline_model::{ScalingPolicy, Str};
use songline_projections::{State, Table};

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::ReadParams;
use crate::server::Reads;
use songline_lang::acl::{Acl, NamespaceCapability};

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    let read_policy = Capability::Object(&[NamespaceCapability::ReadScalingPolicy]);
    mux.add(Methods::Get, "/v1/scaling/policies", "", Capability::Filtered, |call| Box::pin(list(call)));
    mux.add(Methods::Get, "/v1/scaling/policy/", "{}", read_policy, |call| Box::pin(read(call)));
}

/// A scaling policy in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct PolicyStub<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    enabled: bool,
    #[serde(rename = "Type")]
    kind: &'a str,
    target: &'a Option<BTreeMap<Str, Str>>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> PolicyStub<'a> {
    fn new(row: &'a ScalingPolicy) -> Self {
        Self {
            id: &row.id,
            enabled: row.enabled,
            kind: &row.kind,
            target: &row.target,
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

/// Whether the caller sees a job's policies: with the capability, or with the right to list and read jobs.
fn may(acl: &Acl, namespace: &str, capability: NamespaceCapability) -> bool {
    let sees_jobs = acl.namespace(namespace, NamespaceCapability::ListJobs)
        && acl.namespace(namespace, NamespaceCapability::ReadJob);
    acl.namespace(namespace, capability) || sees_jobs
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let (job, kind) = (call.query().text("job").into_owned(), call.query().text("type").into_owned());
    if !params.all_namespaces() {
        call.require(|acl| may(acl, &params.namespace, NamespaceCapability::ListScalingPolicies))?;
    }
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::ScalingPolicy)], |view| {
        let caller = call.caller()?;
        let mut rows = rows(view, &params, &job, &kind);
        rows.retain(|row| may(caller.acl(), &row.target_key().job.namespace, NamespaceCapability::ListScalingPolicies));
        Ok(At { index: view.table_index(Table::ScalingPolicy).max(1), value: rows })
    })
    .await?;
    let stubs: Vec<_> = found.value.iter().map(|row| PolicyStub::new(row)).collect();
    call.read(&Meta::at(found.index), &stubs)
}

/// Rows of the list. A prefix of ids takes precedence over job and type; a job is ignored when all namespaces are
/// listed.
fn rows(view: &State, params: &ReadParams, job: &str, kind: &str) -> Vec<Arc<ScalingPolicy>> {
    let in_namespace = |row: &&Arc<ScalingPolicy>| params.in_namespace(&row.target_key().job.namespace);
    if !params.prefix.is_empty() {
        return view.scaling_policies_with_prefix(&params.prefix).filter(in_namespace).cloned().collect();
    }
    if !job.is_empty() && !params.all_namespaces() {
        let of_job = view.scaling_policies_of_job(&params.namespace, job);
        return of_job.filter(|row| row.kind.starts_with(kind)).cloned().collect();
    }
    view.scaling_policies().filter(|row| row.kind.starts_with(kind)).filter(in_namespace).cloned().collect()
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    call.require(|acl| may(acl, &params.namespace, NamespaceCapability::ReadScalingPolicy))?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::ScalingPolicy)], |view| {
        // A policy in a namespace that the caller may not read is answered like a missing one.
        let caller = call.caller()?;
        let shown = |row: &&Arc<ScalingPolicy>| {
            may(caller.acl(), &row.target_key().job.namespace, NamespaceCapability::ReadScalingPolicy)
        };
        let row = view.scaling_policy(call.id()).filter(shown).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::ScalingPolicy).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("policy not found", found.index)),
    }
}
