//! ACL objects over HTTP: parts that all of their routes share. Each kind of object has its file; `caller`
//! authenticates callers.

mod bodies;
mod bootstrap;
mod one_time;
mod policies;
mod roles;
mod tokens;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use songline_lang::go_json;
use songline_model::{AclToken, RoleId, SecretId, Str};
use songline_projections::State;

use crate::caller::{ANONYMOUS_POLICY, Caller, Identity, denied};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::ids;
use crate::http::mux::Mux;
use crate::server::Server;

pub(super) fn routes<S: Server>(mux: &mut Mux<S>) {
    bootstrap::routes(mux);
    one_time::routes(mux);
    policies::routes(mux);
    roles::routes(mux);
    tokens::routes(mux);
}

/// Policies and roles that a caller may see: without a management token only its own.
enum Own {
    /// The caller has a management token and sees all.
    All,
    /// The caller sees only these.
    Only {
        /// Names of the token's policies, whether the policies exist or not.
        policies: BTreeSet<Str>,
        /// Ids of the token's existing roles.
        roles: BTreeSet<RoleId>,
    },
}

impl Own {
    fn of(view: &State, caller: &Caller) -> Result<Self, ApiError> {
        let token = match caller.identity() {
            Identity::AclsOff => return Ok(Own::All),
            Identity::Anonymous => return Ok(Own::Only { policies: [Str::new_static(ANONYMOUS_POLICY)].into(), roles: BTreeSet::new() }),
            Identity::Token(token) if token.is_management() => return Ok(Own::All),
            Identity::Token(token) => token,
            // As in the reference, the identity of a task is looked up as if it were a secret id, which fails.
            Identity::Workload(_) => return Err(lookup_failed("index error: UUID must be 36 characters")),
            Identity::Node(_) => return Err(denied()),
        };
        let roles: Vec<_> = token.role_links().iter().filter_map(|link| view.acl_role(link.id)).collect();
        let of_roles = roles.iter().flat_map(|role| role.policy_names());
        let policies = token.policy_names().iter().chain(of_roles).cloned().collect();
        Ok(Own::Only { policies, roles: roles.iter().map(|role| role.id).collect() })
    }

    fn has_policy(&self, name: &str) -> bool {
        match self {
            Own::All => true,
            Own::Only { policies, .. } => policies.contains(name),
        }
    }

    fn has_role(&self, id: RoleId) -> bool {
        match self {
            Own::All => true,
            Own::Only { roles, .. } => roles.contains(&id),
        }
    }
}

fn lookup_failed(why: impl std::fmt::Display) -> ApiError {
    ApiError::internal(format!("acl token lookup failed: {why}"))
}

/// The token whose secret the request carries; its rights are not checked.
fn shown<S: Server>(call: &Call<S>) -> Result<Option<Arc<AclToken>>, ApiError> {
    let text = call.token();
    if text.is_empty() {
        return Err(lookup_failed("missing secret id"));
    }
    let secret = ids::exact(text).map_err(|error| lookup_failed(format!("index error: {error}")))?;
    let Some(token) = secret.and_then(|secret| call.server.view().acl_token_by_secret(&SecretId::from(secret))) else { return Ok(None) };
    unexpired(call, &token)?;
    Ok(Some(token))
}

/// Refuses an expired token: not even its owner may use it any more.
fn unexpired<S: Server>(call: &Call<S>, token: &AclToken) -> Result<(), ApiError> {
    if token.is_expired(call.server.now()) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "ACL token expired"));
    }
    Ok(())
}

/// Parses the body as JSON. Error texts name ACL types as Go does.
async fn json<S: Server, T: DeserializeOwned>(call: &mut Call<S>) -> Result<T, ApiError> {
    let body = call.bytes().await?;
    if body.is_empty() {
        return Err(ApiError::bad_request("Request body is empty"));
    }
    go_json::from_slice(&body).map_err(|error| ApiError::bad_request(go_text(&error)))
}

fn go_text(error: &go_json::Error) -> String {
    match error {
        go_json::Error::Type { .. } => error.to_string().replace("Acl", "ACL"),
        go_json::Error::Eof | go_json::Error::UnexpectedEof | go_json::Error::Syntax(_) | go_json::Error::Custom(_) => error.to_string(),
    }
}
