//! Roles: list, read by id and by name, write, delete. A caller without a management token sees its own roles.

use std::sync::Arc;

use axum::response::Response;
use songline_commands::{DeleteAclRoles, UpsertAclRoles};
use songline_events::watch::WatchKey;
use songline_model::{AclRole, AclRolePolicyLink, RoleId, Str};
use songline_projections::{Rejected, State, Table};

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::server::{Reads, Writes};

use super::bodies::{self, json};
use super::own::Own;

/// Tables that determine a caller's own roles.
const KEYS: [WatchKey; 2] = [WatchKey::Table(Table::AclRoles), WatchKey::Table(Table::AclToken)];

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/acl/roles", "", Capability::Filtered, |call| Box::pin(list(call)));
    let management = Capability::Late(&Capability::Management);
    mux.add(Methods::Write, "/v1/acl/role", "", management, |call| Box::pin(create(call)));
    mux.add(Methods::Get, "/v1/acl/role/", "name/{}", Capability::Filtered, |call| Box::pin(read_named(call)));
    mux.add(Methods::Get, "/v1/acl/role/", "{}", Capability::Filtered, |call| Box::pin(read(call)));
    mux.add(Methods::Write, "/v1/acl/role/", "{}", management, |call| Box::pin(update(call)));
    mux.add(Methods::Delete, "/v1/acl/role/", "{}", management, |call| Box::pin(delete(call)));
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let own = Own::of(view, &call.caller()?)?;
        let rows: Vec<Arc<AclRole>> = view
            .acl_roles()
            .filter(|row| row.id.to_string().starts_with(&params.prefix) && own.has_role(row.id))
            .cloned()
            .collect();
        Ok(At { index: view.table_index(Table::AclRoles).max(1), value: rows })
    })
    .await?;
    call.read(&Meta::at(found.index), &found.value)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let id = id_in(id_of(&call)?);
    call.with_acls()?;
    answer(&call, |view| id.and_then(|id| view.acl_role(id))).await
}

async fn read_named<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let name = match call.id() {
        "" => return Err(ApiError::bad_request("missing ACL role name")),
        name if name.contains('/') => return Err(invalid_uri()),
        name => Str::new(name),
    };
    call.with_acls()?;
    answer(&call, |view| view.acl_role_by_name(&name)).await
}

async fn answer<S: Reads>(
    call: &Call<S>,
    find: impl Fn(&State) -> Option<&Arc<AclRole>>,
) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let found = blocking::run(call, &params, &KEYS, |view| {
        let own = Own::of(view, &call.caller()?)?;
        let row = find(view).cloned();
        let is_readable = row.as_ref().map_or(matches!(own, Own::All), |row| own.has_role(row.id));
        if !is_readable {
            return Err(denied());
        }
        let index = row.as_ref().map_or_else(|| view.table_index(Table::AclRoles).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("ACL role not found", found.index)),
    }
}

async fn create<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body: bodies::AclRole = json(&mut call).await?;
    call.with_acls()?;
    write(&call, &body).await
}

async fn update<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    id_of(&call)?;
    let body: bodies::AclRole = json(&mut call).await?;
    if body.id != call.id() {
        return Err(ApiError::bad_request("ACL role ID does not match request path"));
    }
    call.with_acls()?;
    write(&call, &body).await
}

async fn write<S: Writes>(call: &Call<S>, body: &bodies::AclRole) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let view = call.view();
    let mut policies: Vec<AclRolePolicyLink> = Vec::new();
    for link in bodies::entries("role policy", body.policies.as_ref())? {
        if !policies.iter().any(|known| known.name == link.name) {
            policies.push(AclRolePolicyLink { name: link.name.clone() });
        }
    }
    let mut role = AclRole {
        name: body.name.clone(),
        description: body.description.clone(),
        policies: Some(policies),
        ..AclRole::default()
    };
    role.validate().map_err(|errors| ApiError::bad_request(format!("role 0 invalid: {errors}")))?;
    if body.id.is_empty() {
        if view.acl_role_by_name(&role.name).is_some() {
            return Err(ApiError::bad_request(format!("role with name {} already exists", role.name)));
        }
        role.id = call.fresh_uuid().into();
    } else {
        let stored = id_in(&body.id).and_then(|id| view.acl_role(id));
        role.id = stored.ok_or_else(|| ApiError::bad_request(format!("cannot find role {}", body.id)))?.id;
    }
    if let Some(missing) = role.policy_names().find(|name| view.acl_policy(name).is_none()) {
        return Err(ApiError::bad_request(format!("cannot find policy {missing}")));
    }
    role.hash = Some(role.compute_hash());
    let id = role.id;
    let written = call.propose(UpsertAclRoles { roles: vec![role], allow_missing_policies: false }).await?;
    match call.view_after(written.index).await.acl_role(id) {
        Some(row) => call.written(written.index, &**row),
        None => Err(Rejected::AclRoleNotFound.into()),
    }
}

async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let id = id_in(id_of(&call)?);
    call.with_acls()?;
    call.write_namespace()?;
    let id = id.ok_or(Rejected::AclRoleNotFound)?;
    let written = call.propose(DeleteAclRoles { ids: vec![id] }).await?;
    Ok(empty_written(written.index))
}

fn id_of<S>(call: &Call<S>) -> Result<&str, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("missing ACL role ID")),
        id if id.contains('/') => Err(invalid_uri()),
        id => Ok(id),
    }
}

/// Parses a role id in canonical form: the reference stores role ids as strings, so only the exact text matches.
pub(super) fn id_in(text: &str) -> Option<RoleId> {
    text.parse().ok().filter(|id: &RoleId| id.to_string() == text)
}

fn invalid_uri() -> ApiError {
    ApiError::bad_request("invalid URI")
}
