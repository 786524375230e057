//! Tokens: list, read, write, delete. A caller without a management token sees only its own token.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use serde::{Serialize, Serializer};
use songline_commands::{DeleteAclTokens, UpsertAclTokens};
use songline_events::watch::WatchKey;
use songline_model::{AccessorId, AclToken, AclTokenKind, AclTokenRoleLink, Dur};
use songline_projections::{State, Table};
use songline_wire::acl::{TokenStub, TokenView};

use crate::caller::{AuthError, Identity, denied};
use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::server::{Reads, Regions, Writes};

use super::bodies::{self, json};
use super::own::{lookup_failed, shown};
use super::roles;

/// Tables that a read of a token depends on: the names of a token's roles are in the roles' table.
const KEYS: [WatchKey; 2] = [WatchKey::Table(Table::AclToken), WatchKey::Table(Table::AclRoles)];

pub(super) fn routes<S: Writes + Regions>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/acl/tokens", "", Capability::Management, |call| Box::pin(list(call)));
    let management = Capability::Late(&Capability::Management);
    mux.add(Methods::Write, "/v1/acl/token", "", management, |call| Box::pin(create(call)));
    mux.add(Methods::Get, "/v1/acl/token/self", "", Capability::Possession, |call| Box::pin(read_own(call)));
    mux.add(Methods::Get, "/v1/acl/token/", "{}", Capability::Possession, |call| Box::pin(read(call)));
    mux.add(Methods::Write, "/v1/acl/token/", "{}", management, |call| Box::pin(update(call)));
    mux.add(Methods::Delete, "/v1/acl/token/", "{}", management, |call| Box::pin(delete(call)));
}

/// A row of the list as filters see it: the whole stored token, including its secret.
struct Listed(Arc<AclToken>);

impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        TokenView::stored(&self.0).serialize(s)
    }
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    call.with_acls()?;
    let params = call.read_params()?;
    let prefix = ids::prefix(&params.prefix).map_err(|error| lookup_failed(format!("index error: {error}")))?;
    let of_prefix = !params.prefix.is_empty();
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::AclToken)], |view| {
        let mut rows: Vec<Arc<Listed>> = if of_prefix {
            view.acl_tokens_with_prefix(&prefix).map(|row| Arc::new(Listed(Arc::clone(row)))).collect()
        } else {
            view.acl_tokens().map(|row| Arc::new(Listed(Arc::clone(row)))).collect()
        };
        if params.reverse {
            rows.reverse();
        }
        let place = |row: &Listed| {
            let id = row.0.accessor_id.to_string();
            if of_prefix { Token::Text(id) } else { Token::Indexed(row.0.create_index, id) }
        };
        let page = paging::page(&params, rows.into_iter(), place, |_| true)?;
        Ok(At { index: view.table_index(Table::AclToken).max(1), value: page })
    })
    .await?;
    let stubs: Vec<TokenStub<'_>> = found.value.rows.iter().map(|row| TokenStub::new(&row.0)).collect();
    call.read(&Meta::page(found.index, found.value.next_token), &stubs)
}

async fn read_own<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let row = shown(&call)?;
        let index = row.as_ref().map_or_else(|| view.table_index(Table::AclToken).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &TokenView::revealed(&row)),
        None => Err(ApiError::missing("ACL token not found", found.index)),
    }
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    if call.id().is_empty() {
        return Err(ApiError::bad_request("Missing Token Accessor"));
    }
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        // Only this route reports why authentication failed.
        let caller = call.authenticated().map_err(|error| match error {
            AuthError::Unknown => denied(),
            AuthError::Expired | AuthError::BadIdentity(_) | AuthError::BadPolicy(_) => {
                ApiError::internal(error.to_string())
            }
        })?;
        let row = find(view, call.id()).map_err(|error| lookup_failed(format!("index error: {error}")))?;
        let is_own = match (caller.identity(), &row) {
            (Identity::Token(token), Some(row)) => token.accessor_id == row.accessor_id,
            _ => false,
        };
        if !is_own && !caller.acl().is_management() {
            return Err(denied());
        }
        let index = row.as_ref().map_or_else(|| view.table_index(Table::AclToken).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &TokenView::revealed(&row)),
        None => Err(ApiError::missing("ACL token not found", found.index)),
    }
}

/// The token with this accessor id, if the text is an id.
fn find(view: &State, accessor: &str) -> Result<Option<Arc<AclToken>>, String> {
    Ok(ids::exact(accessor)?.and_then(|id| view.acl_token(AccessorId::from(id))))
}

async fn create<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body: bodies::AclToken = token_body(&mut call).await?;
    call.with_acls()?;
    write(&call, &body).await
}

async fn update<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    if call.id().is_empty() {
        return Err(ApiError::bad_request("Missing Token Accessor"));
    }
    let body: bodies::AclToken = token_body(&mut call).await?;
    if body.accessor_id != call.id() {
        return Err(ApiError::bad_request("ACL token accessor does not match request path"));
    }
    call.with_acls()?;
    write(&call, &body).await
}

/// Parses a token's body. The reference reads it through an unnamed type, which its error texts show.
async fn token_body<S>(call: &mut Call<S>) -> Result<bodies::AclToken, ApiError> {
    let body: bodies::AclToken = json(call).await.map_err(|error: ApiError| {
        let text = error.text.replace("struct field ACLToken.", "struct field .Alias.");
        let text = text.replace("struct field ACLTokenRoleLink.", "struct field ACLTokenRoleLink.Alias.");
        let text = text.replace(
            "Go value of type structs.ACLToken",
            "Go value of type struct { ExpirationTTL interface {}; *structs.Alias }",
        );
        ApiError { text: text.into(), ..error }
    })?;
    // The lifetime is part of the body's form.
    body.ttl()?;
    Ok(body)
}

async fn write<S: Writes>(call: &Call<S>, body: &bodies::AclToken) -> Result<Response, ApiError> {
    // A global token is written in the authoritative region, whatever region the request names.
    if body.global {
        call.demand()?;
    } else {
        call.write_namespace()?;
    }
    let view = call.view();
    let (ttl, ends) = (body.ttl()?, body.expiration());
    let links = bodies::entries("role link", body.roles.as_ref())?;
    let mut token = AclToken {
        name: body.name.clone(),
        kind: AclTokenKind::from(body.kind.as_str()),
        policies: body.policies.clone().filter(|names| !names.is_empty()),
        global: body.global,
        expiration_time: ends,
        expiration_ttl: ttl,
        ..AclToken::default()
    };
    let stored = if body.accessor_id.is_empty() {
        token.accessor_id = call.fresh_uuid().into();
        token.secret_id = call.server.fresh_uuid().into();
        token.create_time = call.server.now();
        if ends.is_none() && ttl != Dur::ZERO {
            token.expiration_time = Some(token.create_time.plus(ttl));
        }
        None
    } else {
        let failed =
            |error| ApiError::internal(format!("token lookup failed: acl token lookup failed: index error: {error}"));
        let stored = find(&view, &body.accessor_id).map_err(failed)?;
        let stored = stored.ok_or_else(|| ApiError::bad_request(format!("cannot find token {}", body.accessor_id)))?;
        token.accessor_id = stored.accessor_id;
        token.secret_id = stored.secret_id;
        token.create_time = stored.create_time;
        Some(stored)
    };
    // Validation only counts the links: a link to a missing role is reported after all other defects of the token.
    token.roles = (!links.is_empty()).then(|| vec![AclTokenRoleLink::default(); links.len()]);
    token
        .validate(stored.as_deref(), call.server.info().acl.token_ttl)
        .map_err(|errors| ApiError::bad_request(format!("token 0 invalid: {errors}")))?;
    token.roles = linked(&view, &links)?;
    token.hash = Some(token.compute_hash());
    let accessor = token.accessor_id;
    let written = call.propose(UpsertAclTokens { tokens: vec![token] }).await?;
    match call.view_after(written.index).await.acl_token(accessor) {
        Some(row) => call.written(written.index, &TokenView::revealed(&row)),
        None => Err(ApiError::internal("ACL token not found")),
    }
}

/// The roles that links name by id or by name, without duplicates.
fn linked(view: &State, links: &[&bodies::AclTokenRoleLink]) -> Result<Option<Vec<AclTokenRoleLink>>, ApiError> {
    let mut found: Vec<AclTokenRoleLink> = Vec::new();
    for link in links {
        let (role, asked) = if link.id.is_empty() {
            (view.acl_role_by_name(&link.name), &link.name)
        } else {
            (roles::id_in(&link.id).and_then(|id| view.acl_role(id)), &link.id)
        };
        let id = role.ok_or_else(|| ApiError::bad_request(format!("cannot find role {asked}")))?.id;
        if !found.iter().any(|known| known.id == id) {
            found.push(AclTokenRoleLink { id, ..AclTokenRoleLink::default() });
        }
    }
    Ok((!found.is_empty()).then_some(found))
}

async fn delete<S: Writes + Regions>(call: Call<S>) -> Result<Response, ApiError> {
    let accessor = call.id();
    if accessor.is_empty() {
        return Err(ApiError::bad_request("Missing Token Accessor"));
    }
    call.with_acls()?;
    call.write_namespace()?;
    let failed =
        |error| ApiError::bad_request(format!("token lookup failed: acl token lookup failed: index error: {error}"));
    let Some(token) = find(&call.view(), accessor).map_err(failed)? else {
        return Err(ApiError::bad_request(format!("Cannot delete nonexistent tokens: {accessor}")));
    };
    if token.global && !call.server.info().is_authoritative() {
        return call.at_authoritative(Bytes::new()).await;
    }
    let written = call.propose(DeleteAclTokens { accessor_ids: vec![token.accessor_id] }).await?;
    Ok(empty_written(written.index))
}
