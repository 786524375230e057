//! What is wrong with a request whoever sends it: the reference finds that in the agent that is asked, before a server looks at rights.
//! Asked only about requests that the gate refuses; the same mistakes of those whom it lets through are the handlers' to tell.

use axum::http::{Method, StatusCode, header};

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::params::{ReadParams, check_region};
use crate::server::Server;

/// Paths that end where the name of something should be, and what is said of it.
const NAMELESS: [(&str, u16, &str); 7] = [
    ("/v1/acl/policy/", 400, "Missing Policy Name"),
    ("/v1/acl/token/", 400, "Missing Token Accessor"),
    ("/v1/acl/role/", 400, "missing ACL role ID"),
    ("/v1/acl/auth-method/", 400, "missing ACL auth-method name"),
    ("/v1/acl/binding-rule/", 400, "missing ACL binding rule ID"),
    ("/v1/namespace/", 400, "Missing Namespace Name"),
    ("/v1/node/", 500, "missing node ID"),
];

/// Where a body without anything in it is refused, and what is said before that.
const WITH_BODY: [(&str, &str); 10] = [
    ("/v1/acl/policy/", ""),
    ("/v1/acl/token", ""),
    ("/v1/acl/role", ""),
    ("/v1/acl/auth-method", ""),
    ("/v1/acl/binding-rule", ""),
    ("/v1/namespace", ""),
    ("/v1/node/pool", ""),
    ("/v1/client/metadata", ""),
    ("/v1/operator/scheduler/configuration", "Error parsing scheduler config: "),
    ("/v1/operator/autopilot/configuration", "Error parsing autopilot config: "),
];

/// Writes that always go to the authoritative region, whatever region they name.
const AUTHORITATIVE: [&str; 3] = ["/v1/acl/", "/v1/namespace", "/v1/node/pool"];

/// What is said about a request that the gate refuses; `None`: that it is refused.
pub(super) fn told<S: Server>(call: &Call<S>) -> Option<ApiError> {
    let path = call.path.as_str();
    if let Some(error) = of_raft(call) {
        return Some(error);
    }
    if let Some((_, code, text)) = NAMELESS.iter().find(|(nameless, ..)| *nameless == path) {
        return Some(ApiError::new(StatusCode::from_u16(*code).ok()?, *text));
    }
    let region = &call.server.info().region;
    if call.method == Method::GET {
        // An agent answers for itself without looking at what reads have in common.
        return if path.starts_with("/v1/agent/") { None } else { ReadParams::parse(call.query(), region).err() };
    }
    if call.method == Method::DELETE {
        return of_region(call, region);
    }
    let takes_body = path.ends_with("/drain") || path.ends_with("/eligibility");
    let before = WITH_BODY.iter().find(|(start, _)| path.starts_with(start)).map(|(_, before)| *before);
    match before.or(takes_body.then_some("")) {
        Some(before) if has_no_body(call) && !path.starts_with("/v1/acl/token/onetime") => {
            Some(ApiError::bad_request(format!("{before}Request body is empty")))
        }
        Some(_) | None => of_region(call, region),
    }
}

fn of_region<S: Server>(call: &Call<S>, region: &str) -> Option<ApiError> {
    let everywhere = AUTHORITATIVE.iter().any(|start| call.path.starts_with(start)) || call.path.starts_with("/v1/agent/");
    if everywhere { None } else { check_region(call.query(), region).err() }
}

/// The routes of the log's members look at methods themselves.
fn of_raft<S: Server>(call: &Call<S>) -> Option<ApiError> {
    let word = call.path.strip_prefix("/v1/operator/raft/")?;
    if word.starts_with("configuration") {
        return (call.method != Method::GET).then(|| ApiError::new(StatusCode::METHOD_NOT_ALLOWED, ""));
    }
    if word.starts_with("transfer-leadership") {
        return None;
    }
    if !word.starts_with("peer") || call.method != Method::DELETE {
        return Some(ApiError::not_found("Invalid method"));
    }
    let text = match (call.query().has("id"), call.query().has("address")) {
        (false, false) => "Must specify either ?id with the server's ID or ?address with IP:port of peer to remove",
        (true, true) => "Must specify only one of ?id or ?address",
        (true, false) | (false, true) => return None,
    };
    Some(ApiError::bad_request(text))
}

fn has_no_body<S: Server>(call: &Call<S>) -> bool {
    let length = call.headers.get(header::CONTENT_LENGTH);
    !call.headers.contains_key(header::TRANSFER_ENCODING) && length.is_none_or(|length| length.as_bytes() == b"0")
}
