//! The key-encryption key among servers: a server without it asks the others, and the first leader has a majority
//! store it before anything is wrapped by it. The keyring defines the key and its file.
//!
//! The key is sent over connections whose ends have authenticated as servers, encrypted by TLS or the `encrypt` key.
//! Without both it is sent in the clear, which happens between loopback addresses or where the operator allows it
//! (`allow_unauthenticated_peers`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use songline_api::keyring::KeyringError;

use super::super::{Core, watching};
use super::peers::Topic;
use super::{decode, encode};

/// Interval at which a server checks whether it can unwrap the active root key.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Timeout of another server's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A question about the key-encryption key.
#[derive(Serialize, Deserialize)]
enum Question {
    /// Send the key with this fingerprint.
    Tell(String),
    /// Store this key, if none is in use.
    Keep(HandedOut),
}

/// The key as it is sent. Never printed.
#[derive(Serialize, Deserialize)]
struct HandedOut(#[serde(with = "serde_bytes")] Vec<u8>);

impl HandedOut {
    fn key(self) -> Result<[u8; 32], String> {
        self.0.try_into().map_err(|_| "a key-encryption key has 32 bytes".to_owned())
    }
}

/// Checks for the key for as long as the server runs.
pub(crate) fn start(core: &Arc<Core>) {
    watching::every(core, LOOK_EVERY, async |core| core.seek_kek().await);
}

impl Core {
    /// Asks the others for the key that wraps the active root key, unless this server has it.
    async fn seek_kek(&self) {
        let view = self.view();
        let Some(active) = view.active_root_key() else { return };
        let wanted = active.wrapped.wrapped_by.as_str();
        if self.keyring.has_kek(wanted) || self.other_servers().is_empty() {
            return;
        }
        for answer in
            self.ask_all(Topic::KeyEncryptionKey, &encode(&Question::Tell(wanted.to_owned())), ANSWER_WITHIN).await
        {
            let taken = decode::<HandedOut>(&answer)
                .and_then(HandedOut::key)
                .and_then(|key| self.keyring.take(&key, wanted, &view).map_err(|error| error.to_string()));
            match taken {
                Ok(()) => {
                    tracing::info!(fingerprint = wanted, "another server handed out the key-encryption key");
                    self.leader.root_keys_changed.notify_one();
                    return;
                }
                Err(error) => tracing::warn!(error, "what another server handed out is not the key-encryption key"),
            }
        }
    }

    /// Has a majority store the key before the first root key is wrapped by it, so that no later leader lacks it.
    pub(crate) async fn share_first_kek(&self) -> Result<(), KeyringError> {
        let view = self.view();
        let others = self.other_servers().len();
        if others == 0 || view.root_keys().next().is_some() {
            return Ok(());
        }
        let key = self.keyring.first_kek(&view)?;
        let question = encode(&Question::Keep(HandedOut(key.to_vec())));
        let kept = self.majority_answers(Topic::KeyEncryptionKey, &question, ANSWER_WITHIN).await;
        if kept { Ok(()) } else { Err(KeyringError::NotInitialized) }
    }

    /// Answers another server.
    pub(super) fn answer_about_kek(&self, question: &[u8]) -> Result<Bytes, String> {
        match decode(question)? {
            Question::Tell(wanted) => {
                let key = self.keyring.hand_out(&wanted).map_err(|error| error.to_string())?;
                Ok(encode(&HandedOut(key.to_vec())))
            }
            Question::Keep(handed) => {
                let key = handed.key()?;
                self.keyring.keep_for_first_key(&key, &self.view()).map_err(|error| error.to_string())?;
                Ok(Bytes::new())
            }
        }
    }
}
