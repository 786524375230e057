//! Which call of the reference's servers a request stands for, and who made it: what its rate counters tell apart.

use std::fmt;

use axum::http::Method;

use crate::caller::{AuthError, Caller, Identity};
use crate::http::call::Call;
use crate::http::passed::Peer;
use crate::server::{Served, Server};

/// What a call does to what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RateOp {
    /// `list`
    List,
    /// `read`
    Read,
    /// `write`
    Write,
}

impl fmt::Display for RateOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RateOp::List => "list",
            RateOp::Read => "read",
            RateOp::Write => "write",
        })
    }
}

/// Endpoints by the beginning of a path, longer ones first, and whether a `GET` of exactly this path is a list. What is not here is not
/// measured: the agent answers it by itself, or the reference does not measure it.
const ENDPOINTS: &[(&str, &str)] = &[
    ("/v1/jobs/parse", ""),
    ("/v1/jobs", "job"),
    ("/v1/job/", "job"),
    ("/v1/validate/job", "job"),
    ("/v1/allocations", "alloc"),
    ("/v1/allocation/", "alloc"),
    ("/v1/evaluations", "eval"),
    ("/v1/evaluation/", "eval"),
    ("/v1/deployments", "deployment"),
    ("/v1/deployment/", "deployment"),
    ("/v1/node/pools", "node_pool"),
    ("/v1/node/pool/", "node_pool"),
    ("/v1/nodes", "node"),
    ("/v1/node/", "node"),
    ("/v1/namespaces", "namespace"),
    ("/v1/namespace", "namespace"),
    ("/v1/services", "service_registration"),
    ("/v1/service/", "service_registration"),
    ("/v1/scaling/", "scaling"),
    ("/v1/search", "search"),
    ("/v1/vars", "variables"),
    ("/v1/var/", "variables"),
    ("/v1/volumes", "csi_volume"),
    ("/v1/volume/csi/", "csi_volume"),
    ("/v1/plugins", "csi_plugin"),
    ("/v1/plugin/csi/", "csi_plugin"),
    ("/v1/event/stream", "event"),
    ("/v1/acl/auth-methods", ""),
    ("/v1/acl/login", ""),
    ("/v1/acl/oidc/", ""),
    ("/v1/acl/token/onetime", ""),
    ("/v1/acl/", "acl"),
    ("/v1/operator/keyring/", "keyring"),
    ("/v1/operator/", "operator"),
    ("/v1/system/", "system"),
    ("/v1/status/", "status"),
    ("/v1/regions", "region"),
    ("/v1/client/fs/", "file_system"),
    ("/v1/client/allocation/", "client_allocations"),
    ("/v1/client/stats", "client_stats"),
    ("/v1/client/gc", "client_allocations"),
    ("/v1/client/metadata", "node_meta"),
    ("/v1/agent/members", "status"),
    ("/v1/agent/monitor", "agent"),
    ("/v1/agent/host", "agent"),
    ("/v1/agent/pprof/", "agent"),
];

/// Paths whose `GET` is a list although they do not end like one.
const LIST_TAILS: [&str; 5] = ["/allocations", "/evaluations", "/deployments", "/services", "/versions"];

/// The endpoint and operation of a request, if it is one that is measured.
fn endpoint(method: &Method, path: &str) -> Option<(&'static str, RateOp)> {
    let (root, endpoint) = ENDPOINTS.iter().find(|(root, _)| path.starts_with(root)).filter(|(_, endpoint)| !endpoint.is_empty())?;
    let is_list = path == *root && root.ends_with('s') || LIST_TAILS.iter().any(|tail| path.ends_with(tail));
    let op = match *method {
        Method::GET if is_list || path == "/v1/operator/keyring/keys" => RateOp::List,
        Method::GET => RateOp::Read,
        _ if path.starts_with("/v1/search") || path == "/v1/validate/job" => RateOp::Read,
        _ => RateOp::Write,
    };
    Some((endpoint, op))
}

/// Who made a call, as the label of a counter has it: of somebody unknown it is known where he is. Nobody is named where ACLs are off, and
/// where the token could not be made out.
fn identity(caller: &Result<Caller, AuthError>, peer: Option<Peer>) -> Option<String> {
    match caller {
        Ok(caller) => match caller.identity() {
            Identity::AclsOff => None,
            Identity::Anonymous => Some("token:anonymous".to_owned()),
            Identity::Token(token) => Some(format!("token:{}", token.accessor_id)),
            Identity::Workload(workload) => Some(format!("alloc:{}", workload.claims.alloc_id)),
            Identity::Node(node) => Some(format!("client:{node}")),
        },
        Err(AuthError::Unknown) => Some(peer.map_or_else(|| "unauthenticated".to_owned(), |Peer(ip)| format!(":{ip}"))),
        Err(AuthError::Expired | AuthError::BadIdentity(_) | AuthError::BadPolicy(_)) => None,
    }
}

/// Counts a request, whatever comes of it.
pub(super) fn count<S: Server>(call: &Call<S>, caller: &Result<Caller, AuthError>) {
    if let Some((endpoint, op)) = endpoint(&call.method, &call.path) {
        call.server.count_served(Served { endpoint, op, identity: identity(caller, call.peer) });
    }
}

#[cfg(test)]
mod tests {
    use super::{Peer, RateOp, endpoint, identity};
    use crate::caller::AuthError;
    use axum::http::Method;

    #[test]
    fn of_somebody_unknown_it_is_known_where_he_is() {
        let label = |error, peer| identity(&Err(error), peer);
        let peer = Some(Peer([10, 0, 0, 1].into()));
        assert_eq!(label(AuthError::Unknown, peer).as_deref(), Some(":10.0.0.1"));
        assert_eq!(label(AuthError::Unknown, None).as_deref(), Some("unauthenticated"));
        assert_eq!(label(AuthError::Expired, peer), None);
    }

    #[test]
    fn requests_are_the_calls_of_the_reference() {
        for (method, path, expected) in [
            (Method::GET, "/v1/jobs", Some(("job", RateOp::List))),
            (Method::PUT, "/v1/jobs", Some(("job", RateOp::Write))),
            (Method::GET, "/v1/job/web", Some(("job", RateOp::Read))),
            (Method::GET, "/v1/job/web/allocations", Some(("job", RateOp::List))),
            (Method::PUT, "/v1/jobs/parse", None),
            (Method::PUT, "/v1/validate/job", Some(("job", RateOp::Read))),
            (Method::GET, "/v1/node/pools", Some(("node_pool", RateOp::List))),
            (Method::GET, "/v1/node/pool/a", Some(("node_pool", RateOp::Read))),
            (Method::GET, "/v1/node/a", Some(("node", RateOp::Read))),
            (Method::POST, "/v1/search", Some(("search", RateOp::Read))),
            (Method::PUT, "/v1/var/a/b", Some(("variables", RateOp::Write))),
            (Method::GET, "/v1/acl/tokens", Some(("acl", RateOp::Read))),
            (Method::PUT, "/v1/acl/login", None),
            (Method::GET, "/v1/agent/self", None),
            (Method::GET, "/v1/metrics", None),
        ] {
            assert_eq!(endpoint(&method, path), expected, "{method} {path}");
        }
    }
}
