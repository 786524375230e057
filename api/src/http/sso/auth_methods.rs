//! Auth methods: list, read, write, delete. The list is public, for users before their login, and shows no
//! configuration.

use axum::response::Response;
use songline_commands::{DeleteAclAuthMethods, UpsertAclAuthMethods};
use songline_events::watch::WatchKey;
use songline_model::{AclAuthMethod, Str};
use songline_projections::Table;
use songline_wire::acl::AuthMethodView;
use songline_wire::sso::{self, AuthMethodStub};

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::server::{Reads, Writes};

const KEYS: [WatchKey; 1] = [WatchKey::Table(Table::AclAuthMethods)];

pub(super) async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let rows: Vec<_> = view.acl_auth_methods().cloned().collect();
        Ok(At { index: view.table_index(Table::AclAuthMethods).max(1), value: rows })
    })
    .await?;
    let stubs: Vec<_> = found.value.iter().map(|row| AuthMethodStub::new(row)).collect();
    call.read(&Meta::at(found.index), &stubs)
}

pub(super) async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let row = view.acl_auth_method(&name).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::AclAuthMethods).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &AuthMethodView::new(&row)),
        None => Err(ApiError::missing("ACL auth-method not found", found.index)),
    }
}

pub(super) async fn create<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let method = sent(&mut call).await?;
    call.with_acls()?;
    write(&call, method).await
}

pub(super) async fn update<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let method = sent(&mut call).await?;
    if method.name != name {
        return Err(ApiError::bad_request("ACL auth-method name does not match request path"));
    }
    call.with_acls()?;
    write(&call, method).await
}

pub(super) async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    call.with_acls()?;
    call.write_namespace()?;
    let written = call.propose(DeleteAclAuthMethods { names: vec![name] }).await?;
    Ok(empty_written(written.index))
}

async fn write<S: Writes>(call: &Call<S>, mut method: AclAuthMethod) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let view = call.view();
    let stored = view.acl_auth_method(&method.name);
    if let Some(stored) = stored {
        sso::keep_client_secret(&mut method, stored);
        method = method.merged_over(stored);
    }
    let bounds = call.server.info().acl.token_ttl;
    method.validate(bounds).map_err(|errors| ApiError::bad_request(format!("auth method 0 invalid: {errors}")))?;
    if method.default
        && let Some(default) = view.default_acl_auth_method().filter(|default| default.name != method.name)
    {
        return Err(ApiError::bad_request(format!("default method already exists: {}", default.name)));
    }
    let (name, now) = (method.name.clone(), call.server.now());
    method.create_time = now;
    method.modify_time = now;
    method.hash = Some(method.compute_hash());
    let written = call.propose(UpsertAclAuthMethods { auth_methods: vec![method] }).await?;
    let view = call.view_after(written.index).await;
    let row = view.acl_auth_method(&name).ok_or_else(|| ApiError::internal("ACL auth method not found"))?;
    call.written(written.index, &AuthMethodView::new(row))
}

async fn sent<S>(call: &mut Call<S>) -> Result<AclAuthMethod, ApiError> {
    let body = call.bytes().await?;
    if body.is_empty() {
        return Err(ApiError::bad_request("Request body is empty"));
    }
    sso::auth_method(&body).map_err(ApiError::bad_request)
}

fn required_name<S>(call: &Call<S>) -> Result<Str, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("missing ACL auth-method name")),
        name => Ok(Str::new(name)),
    }
}
