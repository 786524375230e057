//! Single sign-on: routes of auth methods, binding rules and logins, each in its own file. The gate checks the
//! callers.

mod auth_methods;
mod binding_rules;
mod login;
mod oidc;

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use songline_lang::go_json;
use songline_model::{AclAuthMethod, AclAuthMethodConfig, TokenLocality};

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::namespace::multi_error;
use crate::http::params::check_region;
use crate::server::{Agent, Logins, Reads, Regions, Writes};

/// Largest body of a login, in bytes.
const LOGIN_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Timeout of all waits of a login for the provider, together.
const LOGIN_DEADLINE: std::time::Duration = std::time::Duration::from_secs(60);

pub(super) fn routes<S: Writes + Logins + Regions>(mux: &mut Mux<S>) {
    let management = Capability::Late(&Capability::Management);
    mux.add(Methods::Get, "/v1/acl/auth-methods", "", Capability::Anyone, |call| Box::pin(auth_methods::list(call)));
    mux.add(Methods::Write, "/v1/acl/auth-method", "", management, |call| Box::pin(auth_methods::create(call)));
    mux.add(Methods::Get, "/v1/acl/auth-method/", "{}", management, |call| Box::pin(auth_methods::read(call)));
    mux.add(Methods::Write, "/v1/acl/auth-method/", "{}", management, |call| Box::pin(auth_methods::update(call)));
    mux.add(Methods::Delete, "/v1/acl/auth-method/", "{}", management, |call| Box::pin(auth_methods::delete(call)));
    mux.add(Methods::Get, "/v1/acl/binding-rules", "", Capability::Management, |call| {
        Box::pin(binding_rules::list(call))
    });
    mux.add(Methods::Write, "/v1/acl/binding-rule", "", management, |call| Box::pin(binding_rules::create(call)));
    mux.add(Methods::Get, "/v1/acl/binding-rule/", "{}", management, |call| Box::pin(binding_rules::read(call)));
    mux.add(Methods::Write, "/v1/acl/binding-rule/", "{}", management, |call| Box::pin(binding_rules::update(call)));
    mux.add(Methods::Delete, "/v1/acl/binding-rule/", "{}", management, |call| Box::pin(binding_rules::delete(call)));
    mux.add(Methods::Write, "/v1/acl/login", "", Capability::Anyone, |call| Box::pin(login::login(call)));
    mux.add(Methods::Write, "/v1/acl/oidc/auth-url", "", Capability::Anyone, |call| Box::pin(oidc::auth_url(call)));
    mux.add(Methods::Write, "/v1/acl/oidc/complete-auth", "", Capability::Anyone, |call| {
        Box::pin(oidc::complete_auth(call))
    });
}

/// Parses the body of a login. Returns its bytes, too, which another region may have to answer.
async fn sent<S, T: DeserializeOwned>(call: &mut Call<S>) -> Result<(Bytes, T), ApiError> {
    let body = call.bytes_of(LOGIN_BODY_BYTES_MAX).await?;
    if body.is_empty() {
        return Err(ApiError::bad_request("Request body is empty"));
    }
    let sent = go_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok((body, sent))
}

/// Refuses a request with missing fields. `wanted` has the name of each field and whether it is present.
fn demand(what: &str, wanted: &[(&str, bool)]) -> Result<(), ApiError> {
    let missing: Vec<String> =
        wanted.iter().filter(|(_, there)| !there).map(|(name, _)| format!("missing {name}")).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(ApiError::bad_request(format!("invalid {what} request: {}", multi_error(&missing))))
    }
}

/// Refuses a login for another region in its query or, without a region there, in its body.
fn check_login_region<S: Agent>(call: &Call<S>, in_body: &str) -> Result<(), ApiError> {
    let region = &call.server.info().region;
    check_region(call.query(), region)?;
    let in_query = !call.query().text("region").is_empty();
    if in_query || in_body.is_empty() || in_body == region {
        Ok(())
    } else {
        Err(ApiError::internal("No path to region"))
    }
}

/// Whether the authoritative region, which is another one, has to answer a login: it makes the global tokens.
fn is_elsewhere<S: Agent>(call: &Call<S>, method: &AclAuthMethod) -> bool {
    method.token_locality == TokenLocality::Global && !call.server.info().is_authoritative()
}

/// Auth method of a login, from a state that is up to date.
async fn method_of<S: Reads>(call: &Call<S>, name: &str) -> Result<Arc<AclAuthMethod>, ApiError> {
    call.server.read_barrier().await?;
    let method = call.server.view().acl_auth_method(name).cloned();
    method.ok_or_else(|| ApiError::bad_request(format!("auth-method {name:?} not found")))
}

/// Configuration of a method. A method without one is refused.
fn config_of(method: &AclAuthMethod) -> Result<&AclAuthMethodConfig, ApiError> {
    method.config.as_ref().ok_or_else(|| ApiError::bad_request("missing auth method Config"))
}

/// Bounds a wait by [`LOGIN_DEADLINE`].
async fn in_time<T>(wait: impl Future<Output = T>) -> Result<T, ApiError> {
    tokio::time::timeout(LOGIN_DEADLINE, wait).await.map_err(|_| ApiError::internal("context deadline exceeded"))
}
