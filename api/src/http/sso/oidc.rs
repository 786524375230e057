//! Logins at an OpenID provider: the authorization URL, and the completion after the user returns.

use axum::http::StatusCode;
use axum::response::Response;
use songline_identity::jwt::IdTokenError;
use songline_wire::sso::{AuthUrlBody, AuthUrlView, CompleteAuthBody};

use super::login;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::server::{Logins, Reads, Regions, Writes};
use crate::sso::{AuthUrl, Callback, ExchangeError, OidcError, OpenError};

pub(super) async fn auth_url<S: Reads + Logins + Regions>(mut call: Call<S>) -> Result<Response, ApiError> {
    let (body, request): (_, AuthUrlBody) = super::sent(&mut call).await?;
    call.with_acls()?;
    super::check_login_region(&call, &request.region)?;
    let wanted = [
        ("auth method name", !request.auth_method_name.is_empty()),
        ("client nonce", !request.client_nonce.is_empty()),
        ("redirect URI", !request.redirect_uri.is_empty()),
    ];
    super::demand("OIDC auth-url", &wanted)?;
    let method = super::method_of(&call, &request.auth_method_name).await?;
    if super::is_elsewhere(&call, &method) {
        return call.at_authoritative(body).await;
    }
    let config = super::config_of(&method)?;
    let asked = AuthUrl { redirect_uri: &request.redirect_uri, nonce: &request.client_nonce };
    let auth_url = super::in_time(call.server.sso().auth_url(&method, config, asked, call.server.now())).await??;
    call.plain(&AuthUrlView { auth_url })
}

pub(super) async fn complete_auth<S: Writes + Logins + Regions>(mut call: Call<S>) -> Result<Response, ApiError> {
    let (body, request): (_, CompleteAuthBody) = super::sent(&mut call).await?;
    call.with_acls()?;
    super::check_login_region(&call, &request.region)?;
    let wanted = [
        ("auth method name", !request.auth_method_name.is_empty()),
        ("client nonce", !request.client_nonce.is_empty()),
        ("state", !request.state.is_empty()),
        ("code", !request.code.is_empty()),
        ("redirect URI", !request.redirect_uri.is_empty()),
    ];
    super::demand("OIDC complete-auth", &wanted)?;
    let method = super::method_of(&call, &request.auth_method_name).await?;
    if super::is_elsewhere(&call, &method) {
        return call.at_authoritative(body).await;
    }
    let config = super::config_of(&method)?;
    let back = Callback {
        redirect_uri: &request.redirect_uri,
        nonce: &request.client_nonce,
        state: &request.state,
        code: request.code.reveal(),
    };
    let claims = super::in_time(call.server.sso().complete(&method, config, back, call.server.now())).await??;
    login::grant(&call, &method, config, &claims).await
}

impl From<OidcError> for ApiError {
    fn from(error: OidcError) -> Self {
        let code = match &error {
            OidcError::TooLong(_) | OidcError::NoRequest | OidcError::Open(OpenError::Reused) => {
                StatusCode::BAD_REQUEST
            }
            OidcError::Open(OpenError::Full) => StatusCode::TOO_MANY_REQUESTS,
            OidcError::Exchange(ExchangeError::IdToken(IdTokenError::NoSubject)) => StatusCode::UNAUTHORIZED,
            OidcError::Config(_)
            | OidcError::Provider(_)
            | OidcError::Redirect(_)
            | OidcError::Exchange(_)
            | OidcError::User(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, error.to_string())
    }
}
