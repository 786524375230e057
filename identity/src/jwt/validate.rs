//! Validation of a token of a JWT auth method: signature algorithm, audience, times, and issuer.

use serde_json::Value;
use songline_model::{AclAuthMethodConfig, Dur, Str, Time};

use super::Claims;
use super::algorithm::Algorithm;
use super::compact::Compact;

/// Default for the `expiration` and `not_before` leeways: 150 s.
const EXPIRATION_LEEWAY: Dur = Dur::from_secs(150);
/// Default tolerance for clock differences: 60 s.
const CLOCK_SKEW_LEEWAY: Dur = Dur::from_secs(60);

/// A token was refused; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// The method has no keys.
    #[error("keySet must not be nil")]
    NoKeys,
    /// A key of the method is invalid.
    #[error(transparent)]
    Key(#[from] super::KeyError),
    /// The token is invalid.
    #[error("unable to verify signature of JWT token: {0}")]
    Refused(#[from] Refusal),
    /// The method requires certain issuers, and the token names none.
    #[error("auth method specifies BoundIssuers but the provided token does not contain issuer information")]
    NoIssuer,
    /// The method does not accept this issuer.
    #[error("invalid JWT issuer: {0}")]
    Issuer(String),
}

/// Reason why a token is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The token does not have three parts.
    #[error("error verifying token signature: square/go-jose: compact JWS format must have three parts")]
    Parts,
    /// The token is longer than `TOKEN_BYTES_MAX`.
    #[error("error verifying token signature: token is too long")]
    TooLong,
    /// A part is not base64; the offset of the first invalid byte.
    #[error("error verifying token signature: illegal base64 data at input byte {0}")]
    Base64(usize),
    /// The header is invalid.
    #[error("error verifying token signature: {0}")]
    Header(String),
    /// None of the keys signed the token.
    #[error("error verifying token signature: no known key successfully validated the token signature")]
    Unsigned,
    /// None of the keys of a published set signed the token.
    #[error("error verifying token signature: failed to verify id token signature")]
    UnsignedBySet,
    /// The keys could not be fetched.
    #[error("error verifying token signature: fetching keys {0}")]
    Keys(String),
    /// The method lists an unknown algorithm.
    #[error("invalid algorithm (alg) header parameter: unsupported signing algorithm {0:?}")]
    UnknownAlgorithm(String),
    /// The method does not allow the token's algorithm.
    #[error("invalid algorithm (alg) header parameter: token signed with unexpected algorithm")]
    Algorithm,
    /// A claim has the wrong type.
    #[error("json: cannot unmarshal {found} into Go struct field Claims.{claim} of type string")]
    ClaimType {
        /// Type of the claim.
        found: &'static str,
        /// Name of the claim.
        claim: &'static str,
    },
    /// A time is not a number.
    #[error("square/go-jose/jwt: expected number value to unmarshal NumericDate")]
    NotADate,
    /// The audience is neither a text nor a list of texts.
    #[error("square/go-jose/jwt: expected string or array value to unmarshal to Audience")]
    NotAnAudience,
    /// The token is for another audience.
    #[error("invalid audience (aud) claim: audience claim does not match any expected audience")]
    Audience,
    /// The token has no times.
    #[error("no issued at (iat), not before (nbf), or expiration time (exp) claims in token")]
    NoTimes,
    /// The token is not valid yet.
    #[error("invalid not before (nbf) claim: token not yet valid")]
    NotYet,
    /// The token has expired.
    #[error("invalid expiration time (exp) claim: token is expired")]
    Expired,
    /// The token was issued in the future.
    #[error("invalid issued at (iat) claim: token issued in the future")]
    FromTheFuture,
}

/// Tolerances for the times of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leeways {
    /// Validity of a token without an expiry, counted from its start.
    pub expiration: Dur,
    /// Validity before its expiry of a token without a start.
    pub not_before: Dur,
    /// Tolerance for clock differences.
    pub clock_skew: Dur,
}

impl Leeways {
    /// The leeways of a method: zero means the default, negative means none.
    pub fn of(config: &AclAuthMethodConfig) -> Self {
        let or = |asked: Dur, default: Dur| if asked == Dur::ZERO { default } else { asked.max(Dur::ZERO) };
        Self {
            expiration: or(config.expiration_leeway, EXPIRATION_LEEWAY),
            not_before: or(config.not_before_leeway, EXPIRATION_LEEWAY),
            clock_skew: or(config.clock_skew_leeway, CLOCK_SKEW_LEEWAY),
        }
    }
}

/// Requirements of a method for a token.
#[derive(Debug, Clone)]
pub struct Expected<'a> {
    /// Allowed algorithms; empty means RS256.
    pub algorithms: &'a [Str],
    /// Allowed audiences; empty means any.
    pub audiences: &'a [Str],
    /// Allowed issuers; empty means any.
    pub issuers: &'a [Str],
    /// Tolerances for times.
    pub leeways: Leeways,
}

impl<'a> Expected<'a> {
    /// The requirements of this method.
    pub fn of(config: &'a AclAuthMethodConfig) -> Self {
        Self {
            algorithms: config.signing_algs.as_deref().unwrap_or_default(),
            audiences: config.bound_audiences.as_deref().unwrap_or_default(),
            issuers: config.bound_issuer.as_deref().unwrap_or_default(),
            leeways: Leeways::of(config),
        }
    }
}

/// Checks everything except the signature, which the caller has verified: `claims` are those of `token`.
pub fn validate(token: &Compact, claims: &Claims, expected: &Expected<'_>, now: Time) -> Result<(), JwtError> {
    algorithm(&token.alg, expected.algorithms)?;
    let known = Known::read(claims)?;
    known.check(expected, now)?;
    issuer(claims, expected.issuers)
}

/// Checks that the algorithm is allowed, and that every allowed algorithm is known.
pub(super) fn algorithm(alg: &str, allowed: &[Str]) -> Result<(), Refusal> {
    if let Some(unknown) = allowed.iter().find(|name| Algorithm::parse(name).is_none()) {
        return Err(Refusal::UnknownAlgorithm(unknown.to_string()));
    }
    let is_allowed =
        if allowed.is_empty() { alg == Algorithm::Rs256.as_str() } else { allowed.iter().any(|name| name == alg) };
    if is_allowed { Ok(()) } else { Err(Refusal::Algorithm) }
}

fn issuer(claims: &Claims, believed: &[Str]) -> Result<(), JwtError> {
    if believed.is_empty() {
        return Ok(());
    }
    let issuer = claims.get("iss").and_then(Value::as_str).ok_or(JwtError::NoIssuer)?;
    if believed.iter().any(|name| name == issuer) { Ok(()) } else { Err(JwtError::Issuer(issuer.to_owned())) }
}

/// Registered claims, type-checked as in the reference in the order of their names. Times are Unix seconds; 0 means
/// absent.
pub(super) struct Known {
    pub(super) audiences: Vec<String>,
    pub(super) expires: i64,
    pub(super) issued: i64,
    pub(super) not_before: i64,
}

impl Known {
    pub(super) fn read(claims: &Claims) -> Result<Self, Refusal> {
        let audiences = audiences(claims.get("aud"))?;
        let expires = date(claims.get("exp"))?;
        let issued = date(claims.get("iat"))?;
        text(claims, "iss")?;
        text(claims, "jti")?;
        let not_before = date(claims.get("nbf"))?;
        text(claims, "sub")?;
        Ok(Self { audiences, expires, issued, not_before })
    }

    fn check(&self, expected: &Expected<'_>, now: Time) -> Result<(), Refusal> {
        if (self.expires, self.issued, self.not_before) == (0, 0, 0) {
            return Err(Refusal::NoTimes);
        }
        let leeways = expected.leeways;
        let expires = match self.expires {
            0 => self.issued.max(self.not_before).saturating_add(secs(leeways.expiration)),
            expires => expires,
        };
        let not_before = match (self.not_before, self.issued) {
            (0, 0) => expires.saturating_sub(secs(leeways.not_before)),
            (0, issued) => issued,
            (not_before, _) => not_before,
        };
        if !expected.audiences.is_empty()
            && !self.audiences.iter().any(|name| expected.audiences.iter().any(|wanted| wanted == name))
        {
            return Err(Refusal::Audience);
        }
        in_time(
            Time::from_secs(expires),
            Time::from_secs(not_before),
            Time::from_secs(self.issued),
            leeways.clock_skew,
            now,
        )
    }
}

/// Checks that `now` is between a token's times, within the clock skew.
pub(super) fn in_time(expires: Time, not_before: Time, issued: Time, skew: Dur, now: Time) -> Result<(), Refusal> {
    let latest = now.plus(skew);
    if latest < not_before {
        return Err(Refusal::NotYet);
    }
    if now > expires.plus(skew) {
        return Err(Refusal::Expired);
    }
    if latest < issued {
        return Err(Refusal::FromTheFuture);
    }
    Ok(())
}

fn secs(span: Dur) -> i64 {
    span.nanos() / 1_000_000_000
}

fn date(claim: Option<&Value>) -> Result<i64, Refusal> {
    match claim {
        None | Some(Value::Null) => Ok(0),
        // A number too large for an integer becomes the largest integer: such a token never expires, or never becomes
        // valid.
        Some(Value::Number(number)) => Ok(number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as i64)),
        Some(Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => Err(Refusal::NotADate),
    }
}

fn audiences(claim: Option<&Value>) -> Result<Vec<String>, Refusal> {
    match claim {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(name)) => Ok(vec![name.clone()]),
        Some(Value::Array(names)) => {
            names.iter().map(|name| name.as_str().map(str::to_owned).ok_or(Refusal::NotAnAudience)).collect()
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Err(Refusal::NotAnAudience),
    }
}

fn text(claims: &Claims, claim: &'static str) -> Result<(), Refusal> {
    let found = match claims.get(claim) {
        None | Some(Value::Null | Value::String(_)) => return Ok(()),
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(_)) => "number",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    };
    Err(Refusal::ClaimType { found, claim })
}
