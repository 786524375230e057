//! Metadata of the caller, which every request has beside its own fields.

use serde::{Deserialize, Serialize};
use songline_model::{Dur, NamespaceName, Secret, Str};

/// Metadata that a caller puts into every request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Region of the request; never empty on the wire.
    pub region: Str,
    /// Namespace. Nodes and servers leave it empty.
    pub namespace: NamespaceName,
    /// Secret of a token or of a node, or a workload identity.
    pub auth_token: Secret,
}

/// A request with metadata of its caller.
pub trait Signed: Sized {
    /// Sets the caller's metadata.
    fn sign(&mut self, caller: &Caller);

    /// The request with the caller's metadata.
    #[must_use]
    fn signed(mut self, caller: &Caller) -> Self {
        self.sign(caller);
        self
    }
}

/// Metadata common to all requests, read without knowing the type of the request. Absent fields are zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RequestMeta {
    /// Region of the request.
    pub region: Str,
    /// Namespace of the request.
    pub namespace: NamespaceName,
    /// Token of the caller.
    pub auth_token: Secret,
    /// Whether another server forwarded the request.
    pub forwarded: bool,
    /// Whether any server may answer from its own state.
    pub allow_stale: bool,
    /// Answer when the index is above this one; 0 answers at once.
    pub min_query_index: u64,
    /// Answer after this time in any case; 0 means 300 s.
    pub max_query_time: Dur,
    /// Idempotency key: equal when the same write is sent again.
    pub idempotency_token: Str,
}
