//! Logins with a token of another issuer, and the ACL token that answers a login.

use axum::http::StatusCode;
use axum::response::Response;
use songline_commands::{Actor, UpsertAclTokens};
use songline_identity::jwt::Claims;
use songline_identity::login::{self, Binding, Identity};
use songline_model::{
    AccessorId, AclAuthMethod, AclAuthMethodConfig, AclAuthMethodKind, AclToken, AclTokenKind, AclTokenRoleLink, Str,
    TokenLocality,
};
use songline_projections::State;
use songline_wire::acl::TokenView;
use songline_wire::sso::LoginBody;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::idempotency::Once;
use crate::server::{Logins, Proposal, Regions, Writes};

pub(super) async fn login<S: Writes + Logins + Regions>(mut call: Call<S>) -> Result<Response, ApiError> {
    let (body, request): (_, LoginBody) = super::sent(&mut call).await?;
    call.with_acls()?;
    super::check_login_region(&call, &request.region)?;
    let wanted =
        [("auth method name", !request.auth_method_name.is_empty()), ("login token", !request.login_token.is_empty())];
    super::demand("login", &wanted)?;
    let method = super::method_of(&call, &request.auth_method_name).await?;
    if super::is_elsewhere(&call, &method) {
        return call.at_authoritative(body).await;
    }
    if method.kind != AclAuthMethodKind::Jwt {
        return Err(ApiError::bad_request(format!("unsupported auth-method type: {}", method.kind)));
    }
    let config = super::config_of(&method)?;
    let verified = call.server.sso().verify(&method, config, request.login_token.reveal(), call.server.now());
    let claims = super::in_time(verified).await?;
    let refused =
        |error| ApiError::new(StatusCode::UNAUTHORIZED, format!("unable to validate provided token: {error}"));
    grant(&call, &method, config, &claims.map_err(refused)?).await
}

/// Creates the ACL token of a proven login. Refuses the login when the method's binding rules grant nothing.
pub(super) async fn grant<S: Writes>(
    call: &Call<S>,
    method: &AclAuthMethod,
    config: &AclAuthMethodConfig,
    claims: &Claims,
) -> Result<Response, ApiError> {
    let identity = Identity::of(claims, config).map_err(|error| ApiError::internal(error.to_string()))?;
    let view = call.view();
    let rules = view.acl_binding_rules_of_method(&method.name).map(|rule| &**rule);
    let bindings = login::bind(rules, &identity).map_err(|error| ApiError::internal(error.to_string()))?;
    let token = bound(&view, bindings).ok_or_else(|| ApiError::bad_request("no role or policy bindings matched"))?;
    let accessor_id = AccessorId::from(call.fresh_uuid());
    let now = call.server.now();
    let token = AclToken {
        accessor_id,
        // Never derived from an idempotency key, because that is no secret.
        secret_id: call.server.fresh_uuid().into(),
        name: format!("{}-{}", method.kind, method.name).into(),
        global: method.token_locality == TokenLocality::Global,
        create_time: now,
        expiration_time: Some(now.plus(method.max_token_ttl)),
        expiration_ttl: method.max_token_ttl,
        ..token
    };
    let bounds = call.server.info().acl.token_ttl;
    token.validate(None, bounds).map_err(|errors| ApiError::bad_request(format!("token 0 invalid: {errors}")))?;
    let token = AclToken { hash: Some(token.compute_hash()), ..token };
    // A caller that logs in may well send an expired token.
    let actor = call.caller().map_or(Actor::Anonymous, |caller| caller.actor());
    let idempotency = call.once.as_ref().map(Once::next);
    let command = UpsertAclTokens { tokens: vec![token] }.into();
    let written = call.server.propose(Proposal { actor, cause: None, idempotency, command }).await?;
    // A login that is repeated under its idempotency key gets the token of the first login.
    let stored = call
        .view_after(written.index)
        .await
        .acl_token(accessor_id)
        .ok_or_else(|| ApiError::internal("ACL token not found"))?;
    call.written(0, &TokenView::revealed(&stored))
}

/// A token with the bound policies and roles that exist. `None`: none exists.
fn bound(view: &State, bindings: Vec<Binding>) -> Option<AclToken> {
    let (mut policies, mut roles) = (Vec::<Str>::new(), Vec::<AclTokenRoleLink>::new());
    for binding in bindings {
        match binding {
            Binding::Management => return Some(AclToken { kind: AclTokenKind::Management, ..AclToken::default() }),
            Binding::Policy(name) => {
                if view.acl_policy(&name).is_some() && !policies.iter().any(|known| *known == name) {
                    policies.push(name.into());
                }
            }
            Binding::Role(name) => {
                if let Some(role) =
                    view.acl_role_by_name(&name).filter(|role| roles.iter().all(|known| known.id != role.id))
                {
                    roles.push(AclTokenRoleLink { id: role.id, name: Str::default() });
                }
            }
        }
    }
    if policies.is_empty() && roles.is_empty() {
        return None;
    }
    let (has_policies, has_roles) = (!policies.is_empty(), !roles.is_empty());
    Some(AclToken {
        kind: AclTokenKind::Client,
        policies: has_policies.then_some(policies),
        roles: has_roles.then_some(roles),
        ..AclToken::default()
    })
}
