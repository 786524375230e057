//! Validation of an id token of an OpenID provider: issuer, audience, times, and nonce of the request.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256, Sha384, Sha512};
use songline_model::{Dur, Str, Time};

use super::Claims;
use super::algorithm::Algorithm;
use super::compact::Compact;
use super::validate::{Known, Refusal, algorithm, in_time};

/// Reason why an id token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    /// The token is malformed, or a claim has the wrong type.
    #[error("invalid id_token: {0}")]
    Malformed(Refusal),
    /// No key of the provider signed the token.
    #[error("invalid id_token signature: invalid signature")]
    Signature,
    /// The signature algorithm is not allowed.
    #[error("invalid id_token algorithm: {0}")]
    Algorithm(Refusal),
    /// The token has another issuer.
    #[error("invalid id_token issuer: expected {expected:?} got {found:?}: invalid issuer")]
    Issuer {
        /// The provider's issuer.
        expected: String,
        /// The token's issuer.
        found: String,
    },
    /// The audience does not include the expected ones.
    #[error("invalid id_token audiences: invalid audience")]
    Audience,
    /// The authorised party is another client, or is missing although there are several audiences.
    #[error("invalid id_token authorized party: invalid authorized party")]
    Party,
    /// The token is not valid at this time.
    #[error("invalid id_token: {0}")]
    Time(Refusal),
    /// The token has no expiry.
    #[error("invalid id_token: token has no expiration time")]
    Endless,
    /// The nonce is that of another request, or missing.
    #[error("invalid id_token nonce: invalid nonce")]
    Nonce,
    /// The token has no subject.
    #[error("invalid id_token subject: sub claim is missing")]
    NoSubject,
    /// The access token does not match the hash in the id token.
    #[error("invalid access_token hash: invalid at_hash")]
    AccessToken,
}

/// Expected claims of an id token.
#[derive(Debug, Clone)]
pub struct IdTokenExpected<'a> {
    /// Issuer of the provider.
    pub issuer: &'a str,
    /// Client id of this cluster, which must be in the audience.
    pub client_id: &'a str,
    /// Further audiences, one of which must be present; empty: no further check.
    pub audiences: &'a [Str],
    /// Allowed algorithms; empty means RS256.
    pub algorithms: &'a [Str],
    /// Nonce of the request.
    pub nonce: &'a str,
    /// Tolerance for clock differences.
    pub clock_skew: Dur,
}

/// Checks everything except the signature, which the caller has verified: `claims` are those of `token`. Returns the
/// subject.
pub fn check_id_token<'c>(
    token: &Compact,
    claims: &'c Claims,
    expected: &IdTokenExpected<'_>,
    now: Time,
) -> Result<&'c str, IdTokenError> {
    algorithm(&token.alg, expected.algorithms).map_err(IdTokenError::Algorithm)?;
    let known = Known::read(claims).map_err(IdTokenError::Malformed)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let issuer = text("iss").unwrap_or_default();
    if issuer != expected.issuer {
        return Err(IdTokenError::Issuer { expected: expected.issuer.to_owned(), found: issuer.to_owned() });
    }
    if known.expires == 0 {
        return Err(IdTokenError::Endless);
    }
    let (expires, not_before, issued) = (known.expires, known.not_before, known.issued);
    in_time(Time::from_secs(expires), Time::from_secs(not_before), Time::from_secs(issued), expected.clock_skew, now)
        .map_err(IdTokenError::Time)?;
    let is_for = |name: &str| known.audiences.iter().any(|audience| audience == name);
    if !is_for(expected.client_id)
        || !(expected.audiences.is_empty() || expected.audiences.iter().any(|name| is_for(name)))
    {
        return Err(IdTokenError::Audience);
    }
    let party = text("azp");
    if party.is_some_and(|party| party != expected.client_id) || (known.audiences.len() > 1 && party.is_none()) {
        return Err(IdTokenError::Party);
    }
    if text("nonce").is_none_or(|nonce| nonce.is_empty() || nonce != expected.nonce) {
        return Err(IdTokenError::Nonce);
    }
    text("sub").filter(|subject| !subject.is_empty()).ok_or(IdTokenError::NoSubject)
}

/// Checks the access token against the hash (`at_hash`) in the id token, if there is one.
pub fn check_access_token(token: &Compact, claims: &Claims, access_token: &str) -> Result<(), IdTokenError> {
    let Some(named) = claims.get("at_hash") else { return Ok(()) };
    let hash = match Algorithm::parse(&token.alg) {
        Some(Algorithm::Rs256 | Algorithm::Es256 | Algorithm::Ps256) => Sha256::digest(access_token).to_vec(),
        Some(Algorithm::Rs384 | Algorithm::Es384 | Algorithm::Ps384) => Sha384::digest(access_token).to_vec(),
        Some(Algorithm::Rs512 | Algorithm::Es512 | Algorithm::Ps512 | Algorithm::EdDsa) => {
            Sha512::digest(access_token).to_vec()
        }
        None => return Err(IdTokenError::AccessToken),
    };
    let half = URL_SAFE_NO_PAD.encode(&hash[..hash.len() / 2]);
    if named.as_str() == Some(&half) { Ok(()) } else { Err(IdTokenError::AccessToken) }
}
