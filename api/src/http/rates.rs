//! Which call of the reference's servers a request stands for, and who made it: what its rate counters tell apart.

mod table;

use std::fmt;

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

impl RateOp {
    /// The wire's word.
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

/// The call of the reference that a request stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The reference's name of what is asked, such as `job`.
    pub endpoint: &'static str,
    /// What is done to it.
    pub op: RateOp,
    /// Name of the call's timer behind `nomad.nomad.`, such as `job.get_job`; empty: it has none.
    pub timer: &'static str,
}

/// A route as measurements name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// How its path begins ..
    pub root: &'static str,
    /// .. and goes on, with `{}` for what is read out of it.
    pub tail: &'static str,
    /// Its methods, as the list of routes has them.
    pub methods: &'static str,
    /// What it counts as. `None`: the rate counters leave it out.
    pub rate: Option<Rate>,
}

impl Route {
    /// The route with this path and these methods.
    pub(super) fn of(root: &'static str, tail: &'static str, methods: &'static str) -> Self {
        let path = format!("{root}{tail}");
        let found = table::MEASURED.iter().find(|row| row.0 == path && row.1 == methods);
        let rate = found.map(|&(_, _, endpoint, op, timer)| Rate { endpoint, op, timer });
        Self { root, tail, methods, rate }
    }

    /// The whole path.
    pub fn path(&self) -> String {
        format!("{}{}", self.root, self.tail)
    }
}

/// Marks a request that was counted before it became one of HTTP: the node RPC asks HTTP in its callers' names.
#[derive(Debug, Clone, Copy)]
pub struct Counted;

/// The label of a caller: whose token or identity it is, or the address of an unknown caller. There is none while ACLs are off, and none
/// for a token that is expired or cannot be read.
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

/// Counts a request before anybody looks at whether its caller may: refused ones count.
pub(super) fn count<S: Server>(call: &Call<S>, caller: &Result<Caller, AuthError>) {
    if let Some(Rate { endpoint, op, .. }) = call.rate {
        let labels = call.server.info().rpc_rate_labels;
        let identity = if labels { identity_label(caller, call.peer.map(|Peer(ip)| ip)) } else { None };
        call.server.count_served(Served { endpoint, op, identity });
    }
}

#[cfg(test)]
mod tests;
