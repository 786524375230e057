//! Policies: list, read, write, delete. A caller without a management token sees its own policies.

use std::sync::Arc;

use axum::response::Response;
use songline_commands::{DeleteAclPolicies, UpsertAclPolicies};
use songline_events::watch::WatchKey;
use songline_lang::acl;
use songline_model::{AclPolicy, Str};
use songline_projections::Table;
use songline_wire::acl::{PolicyStub, PolicyView};

use crate::caller::{ANONYMOUS_POLICY, denied};
use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::server::{Reads, Writes};

use super::bodies::json;
use super::own::Own;

/// Tables that determine a caller's own policies.
const KEYS: [WatchKey; 3] =
    [WatchKey::Table(Table::AclPolicy), WatchKey::Table(Table::AclToken), WatchKey::Table(Table::AclRoles)];

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/acl/policies", "", Capability::Filtered, |call| Box::pin(list(call)));
    mux.add(Methods::Get, "/v1/acl/policy/", "{}", Capability::Filtered, |call| Box::pin(read(call)));
    let management = Capability::Late(&Capability::Management);
    mux.add(Methods::Write, "/v1/acl/policy/", "{}", management, |call| Box::pin(write(call)));
    mux.add(Methods::Delete, "/v1/acl/policy/", "{}", management, |call| Box::pin(delete(call)));
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let own = Own::of(view, &call.caller()?)?;
        let shown = |row: &&Arc<AclPolicy>| row.name.starts_with(&params.prefix) && own.has_policy(&row.name);
        let rows: Vec<Arc<AclPolicy>> = view.acl_policies().filter(shown).cloned().collect();
        Ok(At { index: view.table_index(Table::AclPolicy).max(1), value: rows })
    })
    .await?;
    let stubs: Vec<PolicyStub<'_>> = found.value.iter().map(|row| PolicyStub::new(row)).collect();
    call.read(&Meta::at(found.index), &stubs)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let is_readable = name == ANONYMOUS_POLICY || Own::of(view, &call.caller()?)?.has_policy(&name);
        if !is_readable || call.caller()?.is_node() {
            return Err(denied());
        }
        let row = view.acl_policy(&name).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::AclPolicy).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    let Some(row) = found.value else { return Err(ApiError::missing("ACL policy not found", found.index)) };
    call.read(&Meta::at(found.index), &PolicyView::new(&row, acl::written(&row.rules).ok()))
}

async fn write<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let mut policy: AclPolicy = json(&mut call).await?;
    if policy.name != name {
        return Err(ApiError::bad_request("ACL policy name does not match request path"));
    }
    call.with_acls()?;
    call.write_namespace()?;
    let rules = acl::parse(&policy.rules).map(drop).map_err(|error| error.to_string());
    policy.validate(rules).map_err(|errors| ApiError::bad_request(format!("policy 0 invalid: {errors}")))?;
    policy.hash = Some(policy.compute_hash());
    let written = call.propose(UpsertAclPolicies { policies: vec![policy] }).await?;
    Ok(empty_written(written.index))
}

async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    call.with_acls()?;
    call.write_namespace()?;
    let written = call.propose(DeleteAclPolicies { names: vec![name] }).await?;
    Ok(empty_written(written.index))
}

fn required_name<S>(call: &Call<S>) -> Result<Str, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("Missing Policy Name")),
        name => Ok(Str::new(name)),
    }
}
