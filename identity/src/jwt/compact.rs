//! The three parts of a token, not yet trusted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

use super::Claims;
use super::algorithm::Algorithm;
use super::key::PublicKey;
use super::validate::Refusal;
use songline_lang::go_json::{self, Names};

/// A parsed token.
#[derive(Debug, Clone)]
pub struct Compact {
    /// Algorithm named in the header.
    pub alg: String,
    /// Id of the signing key in a key set.
    pub kid: Option<String>,
    /// Whether the header has critical extensions: none are supported.
    critical: bool,
    /// Signed text: header and payload as received.
    signed: String,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl Compact {
    /// Parses a token. Surrounding white space is ignored.
    pub fn parse(token: &str) -> Result<Self, Refusal> {
        let token = token.trim();
        let parts: Vec<&str> = token.split('.').collect();
        let [header, payload, signature] = parts[..] else { return Err(Refusal::Parts) };
        if token.len() > super::TOKEN_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let (header_bytes, payload_bytes, signature_bytes) = (decode(header)?, decode(payload)?, decode(signature)?);
        let names = Names { package: "jose", root: None, fields: &[] };
        let head: Header =
            go_json::from_slice_named(&header_bytes, names).map_err(|error| Refusal::Header(error.to_string()))?;
        Ok(Self {
            alg: head.alg,
            kid: head.kid,
            critical: head.crit.is_some(),
            signed: format!("{header}.{payload}"),
            payload: payload_bytes,
            signature: signature_bytes,
        })
    }

    /// Whether this key signed the token.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        let algorithm = Algorithm::parse(&self.alg).filter(|_| !self.critical);
        algorithm.is_some_and(|algorithm| key.verifies(algorithm, self.signed.as_bytes(), &self.signature))
    }

    /// The claims, if one of the keys signed the token.
    pub fn claims<'k>(&self, mut keys: impl Iterator<Item = &'k PublicKey>) -> Option<Claims> {
        if !keys.any(|key| self.is_signed_by(key)) {
            return None;
        }
        match serde_json::from_slice(&self.payload).ok()? {
            Value::Object(claims) => Some(claims),
            Value::Null => Some(Claims::new()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// The claims, if a key of a set signed the token: the key that the token names, or any key when it names none.
    pub fn claims_by_set(&self, keys: &[PublicKey]) -> Option<Claims> {
        let named =
            |key: &&PublicKey| self.kid.as_deref().is_none_or(|kid| kid.is_empty() || key.kid.as_deref() == Some(kid));
        self.claims(keys.iter().filter(named))
    }
}

/// Decodes URL-safe base64 without padding.
fn decode(text: &str) -> Result<Vec<u8>, Refusal> {
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if let Some(at) = text.bytes().position(|byte| !alphabet(byte)) {
        return Err(Refusal::Base64(at));
    }
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Refusal::Base64(text.len().saturating_sub(1)))
}
