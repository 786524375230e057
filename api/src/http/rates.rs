//! Labels of the rate counters: the reference's RPC that a request stands for, and its caller.

mod table;

use std::fmt;

use crate::caller::{AuthError, Caller, Identity};
use crate::http::call::Call;
use crate::http::passed::Peer;
use crate::server::{Served, Server};

/// Operation of a call on its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RateOp {
    /// `list`
    List,
    /// `read`
    Read,
    /// `write`
    Write,
}

impl RateOp {
    /// The operation as the wire names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            RateOp::List => "list",
            RateOp::Read => "read",
            RateOp::Write => "write",
        }
    }
}

impl fmt::Display for RateOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// RPC of the reference that a request stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Endpoint as the reference names it, such as `job`.
    pub endpoint: &'static str,
    /// Operation of the call.
    pub op: RateOp,
    /// Name of the RPC's timer after `nomad.nomad.`, such as `job.get_job`; empty when it has none.
    pub timer: &'static str,
}

/// Labels of a route in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Beginning of the path.
    pub root: &'static str,
    /// Rest of the path, with `{}` for its variable part.
    pub tail: &'static str,
    /// Methods, in the notation of the list of routes.
    pub methods: &'static str,
    /// Label in the rate counters. `None`: the route is not counted.
    pub rate: Option<Rate>,
}

impl Route {
    /// The route with this path and these methods.
    pub(super) fn of(root: &'static str, tail: &'static str, methods: &'static str) -> Self {
        let found = table::MEASURED.iter().find(|row| row.0.strip_prefix(root) == Some(tail) && row.1 == methods);
        let rate = found.map(|&(_, _, endpoint, op, timer)| Rate { endpoint, op, timer });
        Self { root, tail, methods, rate }
    }

    /// The whole path.
    pub fn path(&self) -> String {
        format!("{}{}", self.root, self.tail)
    }
}

/// Marks a request that the node RPC makes on behalf of its caller and has counted already.
#[derive(Debug, Clone, Copy)]
pub struct Counted;

/// Label of a caller: its token, allocation or node, or the address of an unknown caller. `None` with ACLs disabled, and for a token that
/// is expired or cannot be read.
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
pub(super) fn count<S: Server>(call: &Call<S>, caller: &Result<Caller, AuthError>) {
    if let Some(Rate { endpoint, op, .. }) = call.rate {
        let labels = call.server.info().rpc_rate_labels;
        let identity = if labels { identity_label(caller, call.peer.map(|Peer(ip)| ip)) } else { None };
        call.server.count_served(Served { endpoint, op, identity });
    }
}

#[cfg(test)]
mod tests;
