//! Verification of workload identities: tokens of tasks, signed by a root key of this cluster. The row and its claims
//! are in `songline_model`; keys, and signing with them, belong to the server's keyring.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::Deserialize;
use songline_model::{IdentityClaims, RootKeyId, Time, UnixSecs};

/// A token was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token does not have three parts.
    #[error("token is malformed: token contains an invalid number of segments")]
    SegmentCount,
    /// A part is not encoded, or the first is not a header.
    #[error("token is malformed")]
    Malformed,
    /// Root keys sign with `EdDSA` only.
    #[error("unexpected signing method: {}", .0.escape_debug())]
    Algorithm(String),
    /// The header has extensions that must be understood; none is.
    #[error("token has critical headers that are not known")]
    CriticalHeader,
    /// The header names no key.
    #[error("missing key ID header")]
    NoKeyId,
    /// The header's key id is not the id of a root key.
    #[error("no such key {0:?} in keyring")]
    NotAKeyId(String),
    /// The named key did not sign this token.
    #[error("signature is invalid")]
    Signature,
    /// The claims are signed but not those of an identity.
    #[error("token has invalid claims")]
    Claims,
    /// The validity of the token has not begun.
    #[error("token is not valid yet")]
    NotYetValid,
}

/// A token whose header was accepted and whose signature was not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnverifiedToken<'t> {
    key_id: RootKeyId,
    /// The signed text: header and claims.
    message: &'t str,
    claims: &'t str,
    signature: &'t str,
}

/// Checked fields of a token's header.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<serde_json::Value>,
    crit: Option<serde_json::Value>,
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}

impl<'t> UnverifiedToken<'t> {
    /// Reads the header of a token.
    pub fn parse(token: &'t str) -> Result<Self, TokenError> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::SegmentCount)?;
        let (header, claims) = message.split_once('.').ok_or(TokenError::SegmentCount)?;
        if claims.contains('.') {
            return Err(TokenError::SegmentCount);
        }
        let header: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| TokenError::Malformed)?;
        if header.alg != "EdDSA" {
            return Err(TokenError::Algorithm(header.alg));
        }
        if header.crit.is_some() {
            return Err(TokenError::CriticalHeader);
        }
        let kid = header
            .kid
            .as_ref()
            .and_then(|kid| kid.as_str())
            .filter(|kid| !kid.is_empty())
            .ok_or(TokenError::NoKeyId)?;
        let key_id = kid.parse().map_err(|_| TokenError::NotAKeyId(kid.to_owned()))?;
        Ok(Self { key_id, message, claims, signature })
    }

    /// Id of the root key that the token claims to be signed with.
    pub fn key_id(&self) -> RootKeyId {
        self.key_id
    }

    /// Claims of the token if the root key with this public key signed it and its validity has begun. Does not check
    /// whether the allocation still exists.
    pub fn verify(&self, public_key: &[u8; 32], now: Time) -> Result<IdentityClaims, TokenError> {
        let signature = decoded(self.signature)?;
        if UnparsedPublicKey::new(&ED25519, public_key).verify(self.message.as_bytes(), &signature).is_err() {
            return Err(TokenError::Signature);
        }
        let claims: IdentityClaims = serde_json::from_slice(&decoded(self.claims)?).map_err(|_| TokenError::Claims)?;
        if claims.nbf > UnixSecs::from(now) {
            return Err(TokenError::NotYetValid);
        }
        Ok(claims)
    }
}
