//! Vault on this node: the node's attributes about it, the tokens of tasks with a `vault` block, and the reads of
//! templates with such a token. The servers create the tokens, each in a wrapping that this node opens once; the node
//! renews them and keeps them in files.

mod api;
mod files;
mod fingerprint;
mod lease;
mod settings;
mod token;

pub(crate) use api::{CallError, Secrets, Vault};
pub(crate) use files::Files;
pub(crate) use fingerprint::{PERIOD, PERIOD_FOUND, PERIOD_FOUND_SPREAD, print};
pub(crate) use lease::{Lease, Next, next};
pub use settings::VaultSettings;
pub(crate) use token::{AtServers, Holding, Hooks, Task, Tokens, hold};

use std::sync::Arc;

use songline_model::{Secret, Str};
use tokio::sync::watch;

/// The token of a task, and Vault's namespace that it is of; an empty one is the topmost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub token: Secret,
    pub namespace: Str,
}

/// Follows the token of a task; `None` while it has none.
pub(crate) type Accounts = watch::Receiver<Option<Account>>;

/// Waits until the task has a token. Returns nothing if the task gets none any more: it was told why.
pub(crate) async fn account(mut accounts: Accounts) -> Option<Account> {
    accounts.wait_for(Option::is_some).await.ok().and_then(|account| account.clone())
}

/// Ways of a node to Vault.
#[derive(Clone)]
pub(crate) struct Access {
    pub vault: Arc<Vault>,
    /// Asks the servers for tokens.
    pub tokens: Arc<dyn Tokens>,
    /// Namespace of tasks that name none.
    namespace: Str,
}

impl Access {
    /// The error says which setting is wrong.
    pub fn new(settings: &VaultSettings, tokens: Arc<dyn Tokens>) -> Result<Self, String> {
        Ok(Self { vault: Arc::new(Vault::new(settings)?), tokens, namespace: settings.namespace.clone() })
    }

    /// Namespace of a task's token.
    pub fn namespace_of(&self, block: &songline_model::Vault) -> Str {
        if block.namespace.is_empty() { self.namespace.clone() } else { block.namespace.clone() }
    }
}
