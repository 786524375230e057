//! Who calls and how, as every request says it beside its own fields.

use serde::{Deserialize, Serialize};
use songline_model::{Dur, NamespaceName, Secret, Str};

/// What a caller puts into every request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Of which region something is asked; never empty on the wire.
    pub region: Str,
    /// In which namespace. Nodes and servers leave it empty.
    pub namespace: NamespaceName,
    /// Who it is: the secret of a token or of a node, or an identity.
    pub auth_token: Secret,
}

/// A request that says who calls.
pub trait Signed: Sized {
    /// Puts the caller in.
    fn sign(&mut self, caller: &Caller);

    /// The same, with the caller put in.
    #[must_use]
    fn signed(mut self, caller: &Caller) -> Self {
        self.sign(caller);
        self
    }
}

/// What any request says of its caller, read without knowing which request it is. What it does not say is zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RequestMeta {
    /// Of which region something is asked.
    pub region: Str,
    /// In which namespace.
    pub namespace: NamespaceName,
    /// Who asks.
    pub auth_token: Secret,
    /// Whether another server passed it on.
    pub forwarded: bool,
    /// Whether any server may answer from what it has.
    pub allow_stale: bool,
    /// Answer when the index is above this one; 0 answers at once.
    pub min_query_index: u64,
    /// Answer after this time in any case; 0 means 300 s.
    pub max_query_time: Dur,
    /// The same for the same write, sent again.
    pub idempotency_token: Str,
}
