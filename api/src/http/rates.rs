//! Rate counters: counting of requests, and the label of their caller.

use crate::caller::{AuthError, Caller, Identity};
use crate::http::call::Call;
use crate::http::passed::Peer;
use crate::http::rate::Rate;
use crate::server::{Served, Status};

/// Marks a request that the node RPC makes on behalf of its caller and has counted already.
#[derive(Debug, Clone, Copy)]
pub struct Counted;

/// Label of a caller: its token, allocation or node, or the address of an unknown caller. `None` with ACLs disabled,
/// and for a token that is expired or cannot be read.
pub fn identity_label(caller: &Result<Caller, AuthError>, peer: Option<std::net::IpAddr>) -> Option<String> {
    match caller {
        Ok(caller) => match caller.identity() {
            Identity::AclsOff => None,
            Identity::Anonymous => Some("token:anonymous".to_owned()),
            Identity::Token(token) => Some(format!("token:{}", token.accessor_id)),
            Identity::Workload(workload) => Some(format!("alloc:{}", workload.claims.alloc_id)),
            Identity::Node(node) => Some(format!("client:{node}")),
        },
        Err(AuthError::Unknown) => Some(peer.map_or_else(|| "unauthenticated".to_owned(), |ip| format!(":{ip}"))),
        Err(AuthError::Expired | AuthError::BadIdentity(_) | AuthError::BadPolicy(_)) => None,
    }
}

/// Counts a request. Called before the caller's rights are checked: refused requests count.
pub(super) fn count<S: Status>(call: &Call<S>, caller: &Result<Caller, AuthError>) {
    if let Some(Rate { endpoint, op, .. }) = call.rate {
        let labels = call.server.info().rpc_rate_labels;
        let identity = if labels { identity_label(caller, call.peer.map(|Peer(ip)| ip)) } else { None };
        call.server.count_served(Served { endpoint, op, identity });
    }
}

#[cfg(test)]
mod tests;
