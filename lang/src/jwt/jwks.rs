//! Key sets (`{"keys": [..]}`) as providers publish them. Fetching one is not here.

use serde_json::Value;

use super::key::PublicKey;

/// How many keys of a set count.
const KEYS_MAX: usize = 256;

/// The keys of a set that can check signatures; the others are left out. `None`: this is no key set.
pub fn key_set(body: &[u8]) -> Option<Vec<PublicKey>> {
    let set: Value = serde_json::from_slice(body).ok()?;
    let keys = set.get("keys")?.as_array()?;
    Some(keys.iter().take(KEYS_MAX).filter_map(PublicKey::from_jwk).collect())
}
