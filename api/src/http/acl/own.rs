//! The token, policies and roles that a caller of the ACL routes may see: its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use songline_model::{AclToken, RoleId, SecretId, Str};
use songline_projections::State;

use crate::caller::{ANONYMOUS_POLICY, Caller, Identity, denied};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::ids;
use crate::server::{Agent, Reads};

/// Policies and roles that a caller may see: without a management token only its own.
pub(super) enum Own {
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
    pub(super) fn of(view: &State, caller: &Caller) -> Result<Self, ApiError> {
        let token = match caller.identity() {
            Identity::AclsOff => return Ok(Own::All),
            Identity::Anonymous => {
                return Ok(Own::Only { policies: [Str::new_static(ANONYMOUS_POLICY)].into(), roles: BTreeSet::new() });
            }
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

    pub(super) fn has_policy(&self, name: &str) -> bool {
        match self {
            Own::All => true,
            Own::Only { policies, .. } => policies.contains(name),
        }
    }

    pub(super) fn has_role(&self, id: RoleId) -> bool {
        match self {
            Own::All => true,
            Own::Only { roles, .. } => roles.contains(&id),
        }
    }
}

pub(super) fn lookup_failed(why: impl std::fmt::Display) -> ApiError {
    ApiError::internal(format!("acl token lookup failed: {why}"))
}

/// The token whose secret the request carries; its rights are not checked.
pub(super) fn shown<S: Reads>(call: &Call<S>) -> Result<Option<Arc<AclToken>>, ApiError> {
    let text = call.token();
    if text.is_empty() {
        return Err(lookup_failed("missing secret id"));
    }
    let secret = ids::exact(text).map_err(|error| lookup_failed(format!("index error: {error}")))?;
    let Some(token) = secret.and_then(|secret| call.server.view().acl_token_by_secret(&SecretId::from(secret))) else {
        return Ok(None);
    };
    unexpired(call, &token)?;
    Ok(Some(token))
}

/// Refuses an expired token: not even its owner may use it any more.
pub(super) fn unexpired<S: Agent>(call: &Call<S>, token: &AclToken) -> Result<(), ApiError> {
    if token.is_expired(call.server.now()) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "ACL token expired"));
    }
    Ok(())
}
