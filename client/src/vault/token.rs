//! The token of one task: taken from the servers or from an earlier agent's file, renewed for as long as the task lives,
//! replaced when that fails, revoked at the end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use songline_model::{AllocId, Dur, Secret, Str};
use songline_rpc::{NoVaultToken, NodeAuth, RpcError, Servers};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::api::{CallError, Vault};
use super::lease::{Lease, Next};
use super::{Account, Accounts, Files};
use crate::clock::Clock;
use crate::core::{Input, Reaction, event};
use crate::driver::Boxed;

/// First delay after a failure; each later one is twice the one before.
const BACKOFF: Dur = Dur::from_secs(1);
/// Largest delay after a failure, without its random part.
const BACKOFF_MAX: Dur = Dur::from_mins(1);
/// Number of attempts to open a wrapping while Vault is away. All of them are within the five minutes that a wrapping
/// is kept.
const UNWRAP_ATTEMPTS: u32 = 5;
/// Timeout of the revocation of a token that is no longer needed.
const REVOKE_WITHIN: Duration = Duration::from_secs(10);

/// Asks the servers for tokens.
pub(crate) trait Tokens: Send + Sync {
    /// A new token for a task, in its wrapping.
    fn derive(&self, alloc: AllocId, task: Str) -> Boxed<'_, Result<Result<Secret, NoVaultToken>, RpcError>>;
}

/// Calls to the servers in the name of this node.
pub(crate) struct AtServers<S> {
    pub servers: Arc<S>,
    pub auth: NodeAuth,
}

impl<S: Servers> Tokens for AtServers<S> {
    fn derive(&self, alloc: AllocId, task: Str) -> Boxed<'_, Result<Result<Secret, NoVaultToken>, RpcError>> {
        Box::pin(async move {
            let derived = self.servers.node_derive_vault_token(&self.auth, alloc, vec![task.clone()]).await?;
            Ok(derived.and_then(|mut tokens| {
                let why = || format!("the servers' answer has no token for task {:?}", task.as_str()).into();
                tokens.remove(&task).ok_or_else(|| NoVaultToken { why: why(), recoverable: true })
            }))
        })
    }
}

/// The worker's ways to the task and to the servers.
pub(crate) struct Hooks {
    /// Tells the allocation's state machine.
    pub tell: Box<dyn Fn(Input) + Send + Sync>,
    pub tokens: Arc<dyn Tokens>,
}

/// A task with a `vault` block.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub alloc: AllocId,
    pub name: Str,
    /// Vault's namespace of the token.
    pub namespace: Str,
    /// Consequence of a new token. `None`: the task reads the file.
    pub reaction: Option<Reaction>,
    pub files: Files,
}

/// The handle of a worker. Dropping it ends the worker and leaves the token as it is, for a later agent.
pub(crate) struct Holding {
    accounts: Accounts,
    stop: DropGuard,
    ended: CancellationToken,
}

impl Holding {
    /// Follows the token.
    pub fn accounts(&self) -> Accounts {
        self.accounts.clone()
    }

    /// Ends the worker and revokes the token: the task has ended for good.
    pub fn finish(self) {
        self.ended.cancel();
        self.stop.disarm();
    }
}

/// Creates a worker and its handle. The caller runs the worker.
pub(crate) fn hold(
    task: Task,
    vault: Arc<Vault>,
    clock: Clock,
    hooks: Hooks,
) -> (Holding, impl Future<Output = ()> + Send) {
    let (publisher, accounts) = watch::channel(None);
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let (stopped, over, last, at) = (stop.clone(), ended.clone(), accounts.clone(), Arc::clone(&vault));
    let worker = Worker { task, vault, clock, hooks, accounts: publisher, said: String::new() };
    let run = async move {
        tokio::select! {
            () = over.cancelled() => {}
            () = stopped.cancelled() => return,
            () = worker.run() => return,
        }
        let account = last.borrow().clone();
        if let Some(account) = account {
            match tokio::time::timeout(REVOKE_WITHIN, at.revoke(&account)).await {
                Ok(Ok(())) => {}
                // The token ends with its time.
                Ok(Err(error)) => tracing::debug!(%error, "revoking the token of a task that has ended"),
                Err(_) => tracing::debug!("revoking the token of a task that has ended: no answer"),
            }
        }
    };
    (Holding { accounts, stop: stop.drop_guard(), ended }, run)
}

struct Worker {
    task: Task,
    vault: Arc<Vault>,
    clock: Clock,
    hooks: Hooks,
    accounts: watch::Sender<Option<Account>>,
    /// The last reason that an event named for why the task waits.
    said: String,
}

impl Worker {
    async fn run(mut self) {
        let Err(none) = self.keep().await;
        let text = format!("Vault: server failed to derive vault token: {none}");
        let event = Box::new(event::killing_because(self.clock.now(), &text));
        (self.hooks.tell)(Input::TaskFailed { task: self.task.name.clone(), event });
    }

    /// Keeps a token, for ever or until the servers give none any more.
    async fn keep(&mut self) -> Result<Infallible, NoVaultToken> {
        let mut lease = match self.found().await {
            Some(token) => {
                self.publish(token);
                None
            }
            None => Some(self.obtain().await?),
        };
        loop {
            let why = self.renew(lease).await;
            let Task { alloc, name, .. } = &self.task;
            tracing::info!(%alloc, task = %name, why, "getting another token of Vault for a task");
            // A run of the task that starts meanwhile waits for the new token.
            self.accounts.send_replace(None);
            lease = Some(self.obtain().await?);
            if let Some(reaction) = self.task.reaction.clone() {
                (self.hooks.tell)(Input::VaultTokenChanged { task: self.task.name.clone(), reaction });
            }
        }
    }

    /// Token that an earlier agent left.
    async fn found(&self) -> Option<Secret> {
        let files = self.task.files.clone();
        tokio::task::spawn_blocking(move || files.read()).await.ok().flatten()
    }

    /// Gets a new token, however long it takes, and publishes it.
    async fn obtain(&mut self) -> Result<Lease, NoVaultToken> {
        let mut failures = 0;
        let (token, lease) = loop {
            let why = match self.hooks.tokens.derive(self.task.alloc, self.task.name.clone()).await {
                Ok(Ok(wrapped)) => match self.unwrap(wrapped).await {
                    Ok(found) => break found,
                    Err(error) => error.to_string(),
                },
                Ok(Err(none)) if none.recoverable => none.to_string(),
                Ok(Err(none)) => return Err(none),
                Err(error) => error.to_string(),
            };
            self.wait(&mut failures, why).await;
        };
        let mut failures = 0;
        while let Err(error) = self.write(token.clone()).await {
            self.wait(&mut failures, error).await;
        }
        self.publish(token);
        self.said.clear();
        Ok(lease)
    }

    /// Opens a wrapping. A failure leaves it to the caller to ask for another token.
    async fn unwrap(&mut self, wrapped: Secret) -> Result<(Secret, Lease), CallError> {
        let wrapped = self.account(wrapped);
        let mut failures = 0;
        loop {
            match self.vault.unwrap(&wrapped).await {
                Err(error @ CallError::Away { .. }) if failures < UNWRAP_ATTEMPTS => {
                    self.wait(&mut failures, error.to_string()).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn write(&self, token: Secret) -> Result<(), String> {
        let files = self.task.files.clone();
        let written =
            tokio::task::spawn_blocking(move || files.write(&token)).await.map_err(|error| error.to_string())?;
        written.map_err(|error| format!("writing the token: {error}"))
    }

    /// Renews the token until that is impossible. Returns the reason.
    async fn renew(&self, known: Option<Lease>) -> String {
        let account = self.accounts.borrow().clone();
        let Some(account) = account else { return "the task has none".to_owned() };
        let (mut failures, mut next, mut longest) = (0, Next::Renew(Duration::ZERO), Lease::new(0, false));
        if let Some(lease) = known {
            (next, longest) = (lease.next(lease), lease);
        }
        loop {
            match next {
                Next::Renew(wait) => tokio::time::sleep(wait).await,
                Next::Replace(wait) => {
                    tokio::time::sleep(wait).await;
                    return "it ends soon".to_owned();
                }
            }
            match self.renewed(&account).await {
                Ok(lease) => {
                    failures = 0;
                    longest = longest.longer(lease);
                    next = lease.next(longest);
                }
                Err(error @ CallError::Refused { .. }) => return error.to_string(),
                Err(error) => {
                    tracing::warn!(task = %self.task.name, %error, "renewing the token of a task");
                    failures += 1;
                    next = Next::Renew(self.backoff(failures));
                }
            }
        }
    }

    /// Renews the token, or finds out how long one lives that cannot be renewed.
    async fn renewed(&self, account: &Account) -> Result<Lease, CallError> {
        match self.vault.renew(account).await {
            Err(CallError::Refused { status: 400, .. }) => self.vault.time_left(account).await,
            outcome => outcome,
        }
    }

    fn account(&self, token: Secret) -> Account {
        Account { token, namespace: self.task.namespace.clone() }
    }

    fn publish(&self, token: Secret) {
        self.accounts.send_replace(Some(self.account(token)));
    }

    /// Waits after a failure. The first one, and each that has another reason than the one before, is an event of the
    /// task.
    async fn wait(&mut self, failures: &mut u32, why: String) {
        *failures += 1;
        let Task { alloc, name, .. } = &self.task;
        tracing::warn!(%alloc, task = %name, why, "waiting for a token of Vault");
        if self.said != why {
            let text = format!("vault: waiting for a token: {why}");
            let event = Box::new(event::message(event::HOOK_MESSAGE, self.clock.now(), &text));
            (self.hooks.tell)(Input::TaskEvent { task: name.clone(), event });
            self.said = why;
        }
        tokio::time::sleep(self.backoff(*failures)).await;
    }

    fn backoff(&self, failures: u32) -> Duration {
        let base = Dur(BACKOFF.nanos() << failures.saturating_sub(1).min(16)).min(BACKOFF_MAX);
        (base.to_std() + self.clock.jitter().below(Dur(base.nanos() / 4)).to_std()).min(BACKOFF_MAX.to_std())
    }
}
