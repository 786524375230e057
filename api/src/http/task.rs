//! The guard before requests that tasks make over their own socket. They are asked who they are even where nobody else is: whoever can open
//! the socket is in the task, and that alone lets him do nothing. What he may do is decided as for every other request.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::{Api, mux};
use crate::caller::{AuthError, Identity, token_of};
use crate::keyring;
use crate::server::Server;

impl<S: Server> Api<S> {
    /// What a request over a task's socket is refused with. `None`: it is to be answered.
    pub(crate) fn refuse_stranger<B>(&self, request: &axum::http::Request<B>) -> Option<Response> {
        if request.uri().query().is_some_and(|query| mux::unescape(query).is_none()) {
            return Some(refusal(StatusCode::BAD_REQUEST, "Bad Request"));
        }
        let token = token_of(request.headers());
        if token.is_empty() {
            return Some(refusal(StatusCode::UNAUTHORIZED, "Unauthorized"));
        }
        match self.is_known(token) {
            Ok(true) => None,
            Ok(false) | Err(AuthError::Unknown) => Some(refusal(StatusCode::FORBIDDEN, "Forbidden")),
            Err(AuthError::Expired | AuthError::BadIdentity(_) | AuthError::BadPolicy(_)) => {
                Some(refusal(StatusCode::INTERNAL_SERVER_ERROR, "Server error authenticating request\n"))
            }
        }
    }

    /// Whether the token is that of a task or of somebody who has one in the tables. Where ACLs are off only tasks are known.
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
    // Whoever guesses has to connect again for every guess.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
