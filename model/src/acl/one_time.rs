//! One-time tokens: a secret that can be exchanged once for a token, to hand a session from the command line to a
//! browser.

use serde::{Deserialize, Serialize};

use super::SecretId;
use crate::{AccessorId, Dur, Time};

/// A one-time token: a secret, the ACL token that it stands for, and its expiry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct OneTimeToken {
    #[serde(rename = "OneTimeSecretID")]
    pub one_time_secret_id: SecretId,
    /// Accessor of the token that the secret is exchanged for.
    #[serde(rename = "AccessorID")]
    pub accessor_id: AccessorId,
    /// Expiry; absent only in rows that are refused.
    pub expires_at: Option<Time>,
    pub create_index: u64,
    pub modify_index: u64,
}

impl OneTimeToken {
    /// Time to live of a one-time token.
    pub const TTL: Dur = Dur::from_mins(10);
}
