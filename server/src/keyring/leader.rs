//! The leader's maintenance of root keys: the first key, rotation by age, re-encryption, and removal of unused keys.
//! `scheduler` decides what is due. Nothing here blocks leadership, so a cluster with unreadable keys still has a
//! leader.

use std::sync::Arc;
use std::time::Duration;

use songline_api::keyring::{Keyring as _, KeyringError};
use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, ApplyVariable, Command, DeleteRootKey, UpsertRootKey};
use songline_model::{RootKeyId, RootKeyMeta, RootKeyState, Variable, VariableMetadata, VariableOp};
use songline_scheduler::leader::root_keys::{self, Effect};

use super::super::Core;
use super::super::leadership::LeadershipTerm;

/// Delay before another attempt after a failure.
const RETRY_WAIT: Duration = Duration::from_secs(2);
/// Delay between two variables that are re-encrypted: at most 100 a second, so that other writes are not delayed.
const REKEY_PAUSE: Duration = Duration::from_millis(10);

/// Reasons why due maintenance was not done.
#[derive(Debug, thiserror::Error)]
enum CareError {
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    #[error(transparent)]
    Propose(#[from] ProposeError),
}

/// Starts the loop; it ends with the leadership term.
pub(crate) fn start(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let (core, under) = (Arc::clone(core), Arc::clone(term));
    term.spawn(async move { run(&core, &under).await });
}

async fn run(core: &Core, term: &LeadershipTerm) {
    let mut told = String::new();
    loop {
        let result = core.care_for_root_keys(term).await;
        let mut wait = core.facts.config.root_key_gc_interval.to_std();
        match result {
            Ok(()) => told.clear(),
            Err(error) => {
                wait = wait.min(RETRY_WAIT);
                let text = error.to_string();
                // Log each error once, not at every attempt.
                if text != told {
                    tracing::error!(error = text, "root keys: variables and new allocations have to wait");
                    told = text;
                }
            }
        }
        // A notification between two turns is stored, so the next wait returns at once.
        let _ = tokio::time::timeout(wait, core.leader.root_keys_changed.notified()).await;
    }
}

impl Core {
    async fn care_for_root_keys(&self, term: &LeadershipTerm) -> Result<(), CareError> {
        let view = self.view();
        // An unreadable key is reported before it is needed.
        if let Some(active) = view.active_root_key() {
            self.keyring.material(active)?;
        }
        for effect in root_keys::due(&view, &self.facts.config.root_keys, self.now()) {
            match effect {
                Effect::Rotate => {
                    self.share_first_kek().await?;
                    let fresh = self.keyring.fresh_key(&view, self.now(), false)?;
                    self.write_as_keyring(term, fresh).await?;
                }
                Effect::Delete(key_id) => {
                    self.write_as_keyring(term, DeleteRootKey { key_id, unused_only: true }).await?
                }
                Effect::TakeOver(key) => self.take_over(term, key).await?,
                Effect::Retire(key) => {
                    if let Some(row) = view.root_key(key) {
                        let meta = RootKeyMeta { state: RootKeyState::Inactive, ..row.meta.clone() };
                        self.write_as_keyring(term, UpsertRootKey { meta, wrapped: row.wrapped.clone(), rekey: false })
                            .await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Re-encrypts all variables of an old key with the active key. A concurrent write of a variable wins.
    async fn take_over(&self, term: &LeadershipTerm, old: RootKeyId) -> Result<(), CareError> {
        let view = self.view();
        for row in view.variables_of_root_key(old) {
            let plain = match self.decrypt(old, &row.encrypted.data) {
                Ok(plain) => plain,
                // An unreadable variable does not stop the others.
                Err(error @ KeyringError::Undecryptable(_)) => {
                    tracing::error!(namespace = %row.meta.namespace, path = %row.meta.path, %error, "a variable cannot be encrypted anew");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let meta = VariableMetadata { modify_time: self.now(), ..row.meta.clone() };
            let var = Variable { meta, encrypted: self.encrypt(&plain)? };
            self.write_as_keyring(term, ApplyVariable { op: VariableOp::Cas, var }).await?;
            tokio::time::sleep(REKEY_PAUSE).await;
        }
        // The old key is unused now and can be removed. If a variable was skipped, the next round tries again.
        if self.view().variables_of_root_key(old).next().is_none() {
            self.leader.root_keys_changed.notify_one();
        }
        Ok(())
    }

    async fn write_as_keyring(&self, term: &LeadershipTerm, command: impl Into<Command>) -> Result<(), ProposeError> {
        let proposal = Proposal {
            actor: Actor::Leader("keyring".into()),
            cause: None,
            idempotency: None,
            command: command.into(),
        };
        self.write_under(term, proposal).await?;
        Ok(())
    }
}
