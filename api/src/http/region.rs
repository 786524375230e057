//! Region that answers a request: the one that the request names, or the authoritative region for the objects that are
//! written there alone. Another region gets nothing but the caller's own token, and authenticates and answers as for any
//! caller.
//!
//! The authoritative region is chosen before the caller is authenticated: a token need not be known here to be known
//! there.

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use songline_lang::go_json;

use crate::error::ApiError;
use crate::http::api::Api;
use crate::http::call::{BODY_BYTES_MAX, Call, read_body};
use crate::http::elsewhere::{ask, in_region};
use crate::http::params::Query;
use crate::http::path::escape;
use crate::server::{AgentInfo, Regions, Server};

/// Prefixes of the routes that are about the asked agent, whatever the region says.
const OF_THE_AGENT: [&str; 9] = [
    "/debug/",
    "/ui/",
    "/v1/agent/",
    "/v1/jobs/parse",
    "/v1/metrics",
    "/v1/openapi.json",
    "/v1/operator/license",
    "/v1/regions",
    "/v1/sentinel/",
];

/// Prefixes of the routes whose writes happen in the authoritative region, whatever the region says.
const AUTHORITATIVE: [&str; 8] = [
    "/v1/acl/auth-method",
    "/v1/acl/binding-rule",
    "/v1/acl/bootstrap",
    "/v1/acl/policy/",
    "/v1/acl/role",
    "/v1/namespace",
    "/v1/node/pool",
    "/v1/quota",
];

/// Request header: name of the region that forwards a write to its authoritative region. It only keeps two regions that
/// take each other for authoritative from forwarding a request for ever, so it needs no proof.
const FOLLOWER: HeaderName = HeaderName::from_static("x-songline-follower");

/// Region that answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Region {
    /// This region, also when the named region is unknown: handlers refuse it.
    Own,
    /// Another region that is known.
    Other(String),
    /// The authoritative region.
    Authoritative,
    /// The authoritative region if the token in the body is global, else the region that the request names.
    OfToken,
}

/// A request after its region was found.
pub(super) enum Routed {
    /// This region answers the request.
    Own(Parts, Body),
    /// The answer of another region.
    Answered(Response),
}

/// The only field of a token's body that decides about the region.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct AclToken {
    global: bool,
}

impl<S: Server> Api<S> {
    /// Region that answers a request.
    pub(super) fn region_of(&self, method: &Method, path: &str, query: &str) -> Region {
        let info = self.server.info();
        // Without ACLs the handler refuses the request, as the reference does before it looks at the region.
        let takes_acls = info.acl.enabled || !path.starts_with("/v1/acl/");
        if !matches!(*method, Method::GET | Method::HEAD) && takes_acls {
            if AUTHORITATIVE.iter().any(|beginning| path.starts_with(beginning)) {
                let named = Query(query).text("region");
                let is_here = info.is_authoritative() && (named.is_empty() || *named == info.region);
                return if is_here { Region::Own } else { Region::Authoritative };
            }
            if *method != Method::DELETE && is_token(path) && !info.is_authoritative() {
                return Region::OfToken;
            }
        }
        self.named_region(path, query)
    }

    fn named_region(&self, path: &str, query: &str) -> Region {
        let region = Query(query).text("region").into_owned();
        let is_elsewhere = !region.is_empty() && region != self.server.info().region;
        if !is_elsewhere || OF_THE_AGENT.iter().any(|beginning| path.starts_with(beginning)) {
            return Region::Own;
        }
        if self.server.servers_of_region(&region).is_empty() { Region::Own } else { Region::Other(region) }
    }

    /// Has the region answer a request, unless it is this one.
    pub(super) async fn route(
        &self,
        region: Region,
        path: &str,
        mut parts: Parts,
        mut body: Body,
    ) -> Result<Routed, ApiError> {
        let info = self.server.info();
        let mut region = region;
        if region == Region::OfToken {
            let bytes = read_body(body, BODY_BYTES_MAX).await?;
            // The region that the request names refuses a malformed body.
            let is_global = go_json::from_slice(&bytes).is_ok_and(|token: AclToken| token.global);
            let named = || self.named_region(path, parts.uri.query().unwrap_or_default());
            region = if is_global { Region::Authoritative } else { named() };
            body = Body::from(bytes);
        }
        let answer = match region {
            Region::Own | Region::OfToken => return Ok(Routed::Own(parts, body)),
            Region::Other(name) => ask(&*self.server, &name, Request::from_parts(parts, body)).await?,
            Region::Authoritative if info.is_authoritative() => {
                parts.uri = in_region(parts.uri.path(), parts.uri.query().unwrap_or_default(), &info.region)?;
                return Ok(Routed::Own(parts, body));
            }
            Region::Authoritative => ask_authoritative(&*self.server, Request::from_parts(parts, body)).await?,
        };
        Ok(Routed::Answered(answer.map(|body| self.until_shutdown(body))))
    }

    /// The body, which ends when this server shuts down: a stream of the other region would hold the connection open.
    fn until_shutdown(&self, body: Body) -> Body {
        let shutdown = self.server.shutdown().clone();
        Body::from_stream(body.into_data_stream().take_until(shutdown.cancelled_owned()))
    }
}

/// Whether a path is that of tokens, and not of one-time tokens.
fn is_token(path: &str) -> bool {
    path.strip_prefix("/v1/acl/token").is_some_and(|rest| !rest.starts_with("/onetime"))
}

/// Has the authoritative region, which is another one, answer a request.
async fn ask_authoritative<S: Regions>(server: &S, mut request: Request) -> Result<Response, ApiError> {
    let AgentInfo { region: own, authoritative_region: authoritative, .. } = server.info();
    if let Some(follower) = request.headers().get(FOLLOWER) {
        return Err(ApiError::internal(format!(
            "region {own:?} is not authoritative, although region {follower:?} takes it for that: its own authoritative region is {authoritative:?}; \
             set server {{ authoritative_region }} to the same region everywhere"
        )));
    }
    *request.uri_mut() = in_region(request.uri().path(), request.uri().query().unwrap_or_default(), authoritative)?;
    let name = HeaderValue::from_str(own).unwrap_or(HeaderValue::from_static("?"));
    request.headers_mut().insert(FOLLOWER, name);
    ask(server, authoritative, request).await
}

impl<S: Regions> Call<S> {
    /// Has the authoritative region, which is another one, answer this request, whose body was `body`.
    pub(super) async fn at_authoritative(&self, body: Bytes) -> Result<Response, ApiError> {
        let path = escape(&self.path);
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = in_region(&path, &self.query, &self.server.info().authoritative_region)?;
        request.headers_mut().clone_from(&self.headers);
        // The layers around this handler see to the encoding of the answer, and the body here has a length of its own.
        for name in [header::ACCEPT_ENCODING, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::ORIGIN] {
            request.headers_mut().remove(name);
        }
        ask_authoritative(&*self.server, request).await
    }
}
