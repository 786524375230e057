//! Vault, as the servers use it: the leader creates tokens for the tasks of allocations. Talking to Vault is the
//! program's part; who may have a token is decided in `rpc/vault.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use songline_model::{Secret, Str};

/// Answer to [`Vault::create_token`].
pub type Created<'a> = Pin<Box<dyn Future<Output = Result<Secret, VaultError>> + Send + 'a>>;

/// Creates tokens.
pub trait Vault: fmt::Debug + Send + Sync + 'static {
    /// Creates a token and wraps it. The secret is that of the wrapping: the token can be taken out of it once, within
    /// a few minutes.
    fn create_token(&self, wanted: TaskToken) -> Created<'_>;
}

/// A token that a task is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskToken {
    /// Name of the token in Vault's audit.
    pub display_name: String,
    /// Vault's policies that the token has.
    pub policies: Vec<Str>,
    /// Vault's namespace; empty is the one that the server is configured with.
    pub namespace: Str,
    /// Purpose of the token (allocation, job, task, node), kept by Vault beside it.
    pub meta: BTreeMap<&'static str, String>,
}

/// Reason why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Vault gave no answer, is sealed or has no leader: a later attempt may succeed.
    #[error("Vault at {address}: {reason}")]
    Away {
        /// Address of Vault.
        address: String,
        /// The reason.
        reason: String,
    },
    /// Vault refused.
    #[error("Vault refused to create a token: status {status}: {text}")]
    Refused {
        /// Status code.
        status: u16,
        /// Beginning of the answer.
        text: String,
    },
}

impl VaultError {
    /// Whether the same request may succeed later.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::Away { .. })
    }
}
