//! Labels of the rate counters: the reference's endpoint and operation.

use std::fmt;

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
