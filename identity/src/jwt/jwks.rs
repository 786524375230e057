//! Key sets (`{"keys": [..]}`) as providers publish them. Fetching is in another crate.

use serde_json::Value;

use super::key::PublicKey;

/// Largest number of keys used from a set.
const KEYS_MAX: usize = 256;

/// The keys of a set that can verify signatures; others are skipped. `None`: the body is not a key set.
pub fn key_set(body: &[u8]) -> Option<Vec<PublicKey>> {
    let set: Value = serde_json::from_slice(body).ok()?;
    let keys = set.get("keys")?.as_array()?;
    Some(keys.iter().take(KEYS_MAX).filter_map(PublicKey::from_jwk).collect())
}
