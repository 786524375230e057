//! Whether an id token of an OpenID provider answers the question that was asked of it: who made it, for whom, when, and for which request.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256, Sha384, Sha512};
use songline_model::{Dur, Str, Time};

use super::Claims;
use super::algorithm::Algorithm;
use super::compact::Compact;
use super::validate::{Known, Refusal, algorithm, in_time};

/// Why an id token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    /// It is no token, or a claim of it is of the wrong type.
    #[error("invalid id_token: {0}")]
    Malformed(Refusal),
    /// No key of the provider has signed it.
    #[error("invalid id_token signature: invalid signature")]
    Signature,
    /// It is signed in a way that is not allowed.
    #[error("invalid id_token algorithm: {0}")]
    Algorithm(Refusal),
    /// Somebody else made it.
    #[error("invalid id_token issuer: expected {expected:?} got {found:?}: invalid issuer")]
    Issuer {
        /// The provider.
        expected: String,
        /// What it says.
        found: String,
    },
    /// It is for somebody else.
    #[error("invalid id_token audiences: invalid audience")]
    Audience,
    /// It is for several, and this client is not the one that it was given to.
    #[error("invalid id_token authorized party: invalid authorized party")]
    Party,
    /// It is out of its time.
    #[error("invalid id_token: {0}")]
    Time(Refusal),
    /// It has no end.
    #[error("invalid id_token: token has no expiration time")]
    Endless,
    /// It answers another request.
    #[error("invalid id_token nonce: invalid nonce")]
    Nonce,
    /// It says of nobody who they are.
    #[error("invalid id_token subject: sub claim is missing")]
    NoSubject,
    /// The access token that came with it is not the one that it names.
    #[error("invalid access_token hash: invalid at_hash")]
    AccessToken,
}

/// What an id token must say.
#[derive(Debug, Clone)]
pub struct IdTokenExpected<'a> {
    /// The provider.
    pub issuer: &'a str,
    /// Us.
    pub client_id: &'a str,
    /// Who else it may be for; none means anybody, us among them.
    pub audiences: &'a [Str],
    /// Allowed algorithms; none means RS256.
    pub algorithms: &'a [Str],
    /// Of the request that it answers.
    pub nonce: &'a str,
    /// How far clocks may be apart.
    pub clock_skew: Dur,
}

/// Checks everything but the signature, which has been checked: `claims` are those of `token`. Answers the subject.
pub fn check_id_token<'c>(token: &Compact, claims: &'c Claims, expected: &IdTokenExpected<'_>, now: Time) -> Result<&'c str, IdTokenError> {
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
    if !is_for(expected.client_id) || !(expected.audiences.is_empty() || expected.audiences.iter().any(|name| is_for(name))) {
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

/// Whether the access token is the one that the id token names, if it names one.
pub fn check_access_token(token: &Compact, claims: &Claims, access_token: &str) -> Result<(), IdTokenError> {
    let Some(named) = claims.get("at_hash") else { return Ok(()) };
    let hash = match Algorithm::parse(&token.alg) {
        Some(Algorithm::Rs256 | Algorithm::Es256 | Algorithm::Ps256) => Sha256::digest(access_token).to_vec(),
        Some(Algorithm::Rs384 | Algorithm::Es384 | Algorithm::Ps384) => Sha384::digest(access_token).to_vec(),
        Some(Algorithm::Rs512 | Algorithm::Es512 | Algorithm::Ps512 | Algorithm::EdDsa) => Sha512::digest(access_token).to_vec(),
        None => return Err(IdTokenError::AccessToken),
    };
    let half = URL_SAFE_NO_PAD.encode(&hash[..hash.len() / 2]);
    if named.as_str() == Some(&half) { Ok(()) } else { Err(IdTokenError::AccessToken) }
}
