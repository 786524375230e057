//! One-time tokens: a secret that is exchanged once for a token, to hand a session from the command line to a browser.

use serde::{Deserialize, Serialize};

use super::SecretId;
use crate::{AccessorId, Dur, Time};

/// `OneTimeToken` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct OneTimeToken {
    #[serde(rename = "OneTimeSecretID")]
    pub one_time_secret_id: SecretId,
    /// Of the token that it is exchanged for.
    #[serde(rename = "AccessorID")]
    pub accessor_id: AccessorId,
    /// Absent only in what is refused.
    pub expires_at: Option<Time>,
    pub create_index: u64,
    pub modify_index: u64,
}

impl OneTimeToken {
    /// How long one lives.
    pub const TTL: Dur = Dur::from_mins(10);
}
