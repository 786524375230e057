//! How a server shows another one that it is a server: something that only those can make who have the cluster's keys.
//!
//! Calls to nodes that another server passes on come with it beside the user's token: the server that the user asked has looked at that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use songline_api::keyring::Keyring;
use songline_model::{RootKeyId, Sealed, Secret};
use songline_rpc::RpcError;

use super::super::Core;

/// How long a proof counts, in seconds. Clocks of servers may differ by some of it.
const GOOD_FOR_SECS: i64 = 60;

/// What is encrypted begins so. Nothing else that is encrypted with the same keys does: variables are JSON.
const MARK: &[u8] = b"\0call of a server\0";

/// What tokens of this kind begin with; no secret of a user or node does.
const BEGIN: &str = "server:";

impl Core {
    /// A proof that counts for a while.
    pub(super) fn prove(&self) -> Result<Secret, RpcError> {
        let good_until = self.now().secs() + GOOD_FOR_SECS;
        let sealed = self.encrypt(&[MARK, &good_until.to_be_bytes()].concat()).map_err(|error| RpcError::remote(error.to_string()))?;
        Ok(Secret::new(format!("{BEGIN}{}:{}", sealed.key_id, STANDARD_NO_PAD.encode(&sealed.data.0))))
    }

    /// Whether `token` is one of a server of this cluster.
    pub(super) fn is_proof(&self, token: &Secret) -> bool {
        let read = || {
            let (key, sealed) = token.reveal().strip_prefix(BEGIN)?.split_once(':')?;
            let key: RootKeyId = key.parse().ok()?;
            let said = self.decrypt(key, &Sealed(STANDARD_NO_PAD.decode(sealed).ok()?)).ok()?;
            let good_until = i64::from_be_bytes(said.strip_prefix(MARK)?.try_into().ok()?);
            let now = self.now().secs();
            Some(now <= good_until && good_until <= now + 2 * GOOD_FOR_SECS)
        };
        read().unwrap_or(false)
    }
}
