//! Signed tokens of somebody else (JWS in compact form): their parts, their keys, and whether their claims hold at a time.
//! No key is fetched and no clock is read here. The tokens that tasks get from this cluster are made and checked by its keyring.

mod algorithm;
mod compact;
mod der;
mod id_token;
mod jwks;
mod key;
#[cfg(test)]
mod tests;
mod validate;

pub use algorithm::Algorithm;
pub use compact::Compact;
pub use id_token::{IdTokenError, IdTokenExpected, check_access_token, check_id_token};
pub use jwks::key_set;
pub use key::{KeyError, PublicKey, is_certificate};
pub use validate::{Expected, JwtError, Leeways, Refusal, validate};

/// What a token says, by name.
pub type Claims = serde_json::Map<String, serde_json::Value>;

/// Longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 256 * 1024;
