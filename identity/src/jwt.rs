//! Signed tokens of external issuers (JWS in compact form): their parts, their keys, and the validation of their
//! claims at a time. No key is fetched and no clock is read here. Workload identities of this cluster are verified by
//! `workload`.

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

/// Claims of a token by name.
pub type Claims = serde_json::Map<String, serde_json::Value>;

/// Longest accepted token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 256 * 1024;
