//! Questions of templates to Vault, with the task's token. An answer is asked for again when its lease, or five minutes,
//! are over.

use std::sync::Arc;
use std::time::Duration;

use songline_lang::template::Value;
use songline_lang::template::consul::vault::Secret;
use songline_lang::template::consul::{Question, VaultQuestion};
use tokio::sync::mpsc;

use super::answers::{Heard, again, backoff};
use super::settings::TemplateSettings;
use crate::clock::Clock;
use crate::vault::{self, Account, Accounts, CallError, Lease, Next, Secrets, Vault};

/// Interval at which lists of names are read again.
const LIST_PERIOD: Duration = Duration::from_secs(5 * 60);

/// The templates' way to Vault.
#[derive(Clone)]
pub(crate) struct ReadsVault {
    pub vault: Arc<Vault>,
    pub accounts: Accounts,
    /// Whether the token is in the task's environment, which templates see.
    pub in_environment: bool,
}

/// Asks in the name of one task.
#[derive(Clone)]
pub(super) struct VaultAsker {
    pub reads: ReadsVault,
    pub settings: TemplateSettings,
    pub clock: Clock,
    pub heard: mpsc::UnboundedSender<Heard>,
}

/// An answer, and when it is good no longer.
struct Answer {
    value: Value,
    texts: Vec<String>,
    /// Id and time of its lease.
    lease: (String, Lease),
    next: Next,
}

impl VaultAsker {
    /// Follows the answer to a question, for ever or until it failed too often.
    pub async fn follow(self, asked: VaultQuestion) {
        let question = Question::Vault(asked.clone());
        let mut failures = 0;
        loop {
            let mut accounts = self.reads.accounts.clone();
            let Some(account) = vault::account(accounts.clone()).await else { return };
            accounts.mark_unchanged();
            match self.ask(&account, &asked).await {
                Ok(Answer { value, texts, lease, next }) => {
                    failures = 0;
                    let answer = Heard::Answer { question: question.clone(), value: Some(value), secrets: texts };
                    if self.heard.send(answer).is_err() {
                        return;
                    }
                    tokio::select! {
                        () = self.hold(&account, lease, next) => {}
                        // What was read with the token before ends with that token.
                        _ = accounts.wait_for(|now| now.as_ref().is_some_and(|now| *now != account)) => {}
                    }
                }
                Err(error) => {
                    if !again(&self.heard, &question, &error, self.settings.vault_retry, &mut failures).await {
                        return;
                    }
                }
            }
        }
    }

    /// Tells the worker of each new token that is in the task's environment.
    pub async fn follow_token(mut self) {
        let mut known = self.reads.accounts.borrow().clone();
        while self.reads.in_environment {
            let differs = |now: &Option<Account>| now.is_some() && *now != known;
            let Ok(found) = self.reads.accounts.wait_for(differs).await.map(|found| found.clone()) else { return };
            known = found;
            let token = known.as_ref().map(|account| account.token.clone()).unwrap_or_default();
            if self.heard.send(Heard::Token(token)).is_err() {
                return;
            }
        }
    }

    async fn ask(&self, account: &Account, asked: &VaultQuestion) -> Result<Answer, String> {
        let vault = &self.reads.vault;
        let text = |error: CallError| error.to_string();
        match asked {
            VaultQuestion::Read(path) => {
                let found = vault.read(account, path).await.map_err(text)?;
                self.answer(found.ok_or_else(|| format!("no secret exists at {path}"))?)
            }
            VaultQuestion::Write { path, data } => {
                let found = vault.issue(account, path, data).await.map_err(text)?;
                self.answer(found.ok_or_else(|| format!("no secret exists at {path}"))?)
            }
            VaultQuestion::List(path) => {
                let mut names = vault.list(account, path).await.map_err(text)?;
                names.sort();
                let value = Value::texts(names);
                let lease = (String::new(), Lease::new(0, false));
                Ok(Answer { value, texts: Vec::new(), lease, next: Next::Replace(LIST_PERIOD) })
            }
        }
    }

    fn answer(&self, found: Secrets) -> Result<Answer, String> {
        let next = vault::next(&found, self.clock.now());
        let Secrets { request_id, lease_id, lease_duration, renewable, data, .. } = found;
        let data = data.unwrap_or_default();
        let lease = (lease_id.clone(), Lease::new(lease_duration, renewable));
        let secret = Secret { request_id, lease_id, lease_duration, renewable, data };
        Ok(Answer { value: secret.value(), texts: secret.texts(), lease, next })
    }

    /// Returns when an answer has to be asked for again: its lease is renewed until then.
    async fn hold(&self, account: &Account, (lease_id, mut longest): (String, Lease), mut next: Next) {
        let mut failures = 0;
        loop {
            match next {
                Next::Replace(wait) => return tokio::time::sleep(wait).await,
                Next::Renew(wait) => tokio::time::sleep(wait).await,
            }
            match self.reads.vault.renew_lease(account, &lease_id).await {
                Ok(lease) => {
                    failures = 0;
                    longest = longest.longer(lease);
                    next = lease.next(longest);
                }
                Err(CallError::Refused { .. }) => return,
                Err(error) => {
                    tracing::debug!(%error, "renewing the lease of a template's secret");
                    failures += 1;
                    let retry = self.settings.vault_retry;
                    next = Next::Renew(backoff(retry.backoff, retry.backoff_max, failures));
                }
            }
        }
    }
}
