//! Authentication of requests over a task's own socket. It is required even with ACLs disabled: access to the socket
//! only proves that the caller runs in the task, and grants no rights. The rights are then checked as for every other
//! request.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::caller::{AuthError, Identity, token_of};
use crate::http::api::Api;
use crate::http::path::unescape;
use crate::keyring;
use crate::server::Server;

impl<S: Server> Api<S> {
    /// Refusal of a request over a task's socket. `None`: the request may proceed.
    pub(crate) fn refuse_stranger<B>(&self, request: &axum::http::Request<B>) -> Option<Response> {
        let token = token_of(request.headers());
        if token.is_empty() {
            return Some(refusal(StatusCode::UNAUTHORIZED, "Unauthorized"));
        }
        match self.is_known(token) {
            Ok(true) if request.uri().query().is_some_and(|query| unescape(query).is_none()) => {
                Some(refusal(StatusCode::BAD_REQUEST, "Bad Request"))
            }
            Ok(true) => None,
            Ok(false) | Err(AuthError::Unknown) => Some(refusal(StatusCode::FORBIDDEN, "Forbidden")),
            Err(AuthError::Expired | AuthError::BadIdentity(_) | AuthError::BadPolicy(_)) => {
                Some(refusal(StatusCode::INTERNAL_SERVER_ERROR, "Server error authenticating request\n"))
            }
        }
    }

    /// Whether the token is a workload identity or an ACL token. With ACLs disabled only workload identities are
    /// accepted.
    fn is_known(&self, token: &str) -> Result<bool, AuthError> {
        if !self.server.info().acl.enabled {
            return Ok(keyring::workload(&self.server.view(), self.server.keyring(), token).is_ok());
        }
        let caller = self.shared.callers.authenticate(&*self.server, token)?;
        Ok(match caller.identity() {
            Identity::Token(_) | Identity::Workload(_) => true,
            Identity::AclsOff | Identity::Anonymous | Identity::Node(_) => false,
        })
    }
}

fn refusal(code: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // The connection is closed, so that guessing tokens needs a new connection for every guess.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
