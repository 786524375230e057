//! The task API of an agent without a server. Requests over a task's socket need a workload identity or an ACL token,
//! as on servers, and are then answered like requests at the agent's port, most of them by a server.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use songline_api::{Answer, Answering};
use songline_model::{Secret, Str};
use songline_rpc::message::{AclWhoAmI, Caller, Signed};

use super::client_only::ClientOnly;
use super::relay::{Relay, TOKEN};

/// Answers requests over the sockets of tasks.
pub(super) struct ForTask {
    relay: Arc<Relay>,
    client_only: Arc<ClientOnly>,
    region: Str,
    acl_enabled: bool,
}

impl ForTask {
    pub(super) fn new(relay: Arc<Relay>, client_only: Arc<ClientOnly>, region: Str, acl_enabled: bool) -> Self {
        Self { relay, client_only, region, acl_enabled }
    }

    /// Refusal of a request with this token and address. `None`: the request may proceed.
    async fn refusal(&self, token: Secret, uri: Uri) -> Option<Response> {
        if token.reveal().is_empty() {
            return Some(refusal(StatusCode::UNAUTHORIZED, "Unauthorized"));
        }
        match self.is_known(token).await {
            Ok(true) if !is_unescapable(uri.query().unwrap_or_default()) => {
                Some(refusal(StatusCode::BAD_REQUEST, "Bad Request"))
            }
            Ok(true) => None,
            Ok(false) => Some(refusal(StatusCode::FORBIDDEN, "Forbidden")),
            Err(error) => {
                tracing::debug!(error, "authenticating a request over a task's socket");
                Some(refusal(StatusCode::INTERNAL_SERVER_ERROR, "Server error authenticating request\n"))
            }
        }
    }

    /// Whether the token is a workload identity or an ACL token. With ACLs disabled the servers do not tell, and only
    /// the identities of this node's tasks are accepted.
    async fn is_known(&self, token: Secret) -> Result<bool, String> {
        if !self.acl_enabled {
            return Ok(self.is_of_a_task_here(&token));
        }
        let caller = Caller { region: self.region.clone(), auth_token: token, ..Caller::default() };
        match self.client_only.servers.ask(&AclWhoAmI::default().signed(&caller)).await {
            Ok(who) => {
                let who = who.identity.unwrap_or_default();
                Ok(who.acl_token.is_some() || who.claims.is_some())
            }
            Err(error) if error.to_string() == "Permission denied" => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    fn is_of_a_task_here(&self, token: &Secret) -> bool {
        let client = &self.client_only.client;
        // Hashes, so that the time of the comparison tells nothing about an identity.
        let wanted = blake3::hash(token.reveal().as_bytes());
        let is_of = |task: &Str, alloc: &songline_model::Allocation| {
            alloc.identity_token(task).is_some_and(|own| blake3::hash(own.reveal().as_bytes()) == wanted)
        };
        client.allocs().into_keys().filter_map(|id| client.alloc(id)).any(|alloc| {
            let tasks = alloc.group().and_then(|group| group.tasks.as_ref()).into_iter().flatten();
            !alloc.client_status.is_terminal() && tasks.into_iter().any(|task| is_of(&task.name, &alloc))
        })
    }
}

impl Answer for ForTask {
    fn answer(&self, mut request: Request) -> Answering<'_> {
        Box::pin(async move {
            // As in Nomad, answers on these sockets are not compressed.
            request.headers_mut().remove(header::ACCEPT_ENCODING);
            let (token, uri) = (token_of(request.headers()), request.uri().clone());
            match self.refusal(token.clone(), uri).await {
                Some(refused) => refused,
                None => {
                    show_token(request.headers_mut(), &token);
                    self.relay.answer(request).await
                }
            }
        })
    }
}

/// The token of a request: `X-Nomad-Token`, else `Authorization: Bearer`. Empty if there is none.
fn token_of(headers: &HeaderMap) -> Secret {
    let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let own = text(headers.get(TOKEN));
    if !own.trim().is_empty() {
        return Secret::new(own.trim());
    }
    let bearer = text(headers.get(header::AUTHORIZATION));
    match bearer.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            Secret::new(token.trim().split(' ').next().unwrap_or_default())
        }
        Some(_) | None => Secret::new(""),
    }
}

/// Sets `X-Nomad-Token` to the checked token: the routes that the relay answers itself read only this header.
fn show_token(headers: &mut HeaderMap, token: &Secret) {
    // The token is from a header, so it is a valid value.
    if let Ok(mut value) = HeaderValue::from_str(token.reveal()) {
        value.set_sensitive(true);
        headers.insert(TOKEN, value);
    }
}

/// Whether each percent sign of a query begins an escape.
fn is_unescapable(query: &str) -> bool {
    let is_escape = |after: &str| after.get(..2).is_some_and(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
    query.split('%').skip(1).all(is_escape)
}

fn refusal(code: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // The connection is closed, so that guessing tokens needs a new connection for every guess.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_that_of_nomads_header_or_else_the_bearers() {
        let told = |headers: &[(&'static str, &'static str)]| {
            let pairs = headers
                .iter()
                .map(|&(name, value)| (axum::http::HeaderName::from_static(name), HeaderValue::from_static(value)));
            token_of(&pairs.collect()).reveal().to_owned()
        };
        assert_eq!(told(&[("x-nomad-token", " a "), ("authorization", "Bearer b")]), "a");
        assert_eq!(told(&[("authorization", "bearer b c")]), "b");
        assert_eq!(told(&[("authorization", "Basic b")]), "");
        assert_eq!(told(&[]), "");
    }

    #[test]
    fn checked_token_replaces_that_of_nomads_header() {
        for own in [None, Some(" ")] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer b"));
            headers.extend(own.map(|own| (TOKEN, HeaderValue::from_static(own))));
            let token = token_of(&headers);
            show_token(&mut headers, &token);
            let shown: Vec<&HeaderValue> = headers.get_all(TOKEN).iter().collect();
            assert_eq!(shown, ["b"]);
        }
    }

    #[test]
    fn query_with_a_broken_escape_is_recognized() {
        let queries = ["", "a=%20b", "a=%zz", "a=%2", "%"].map(is_unescapable);
        assert_eq!(queries, [true, true, false, false, false]);
    }
}
