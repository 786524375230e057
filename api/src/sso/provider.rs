//! Cache of one auth method's provider: its document and its keys, each fetched on first use and kept for a while. At
//! most one request for each is under way, and failures are cached briefly, so that callers cannot make us flood the
//! provider.

use std::time::Duration;

use serde::Deserialize;
use songline_identity::jwt::{self, Claims, Compact, PublicKey, Refusal};
use songline_model::{AclAuthMethodConfig, Blob, Str};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{Fetch, Outgoing, body_of};
use super::form;

/// Lifetime of a cached document.
const DOCUMENT_AGE_MAX: Duration = Duration::from_secs(6 * 3600);
/// Lifetime of cached keys.
const KEYS_AGE_MAX: Duration = Duration::from_secs(3600);
/// Age of cached keys below which a token with an unknown key does not cause a new fetch.
const KEYS_AGE_MIN: Duration = Duration::from_secs(10);
/// Lifetime of a cached failure.
const FAILURE_AGE_MAX: Duration = Duration::from_secs(1);
/// Largest document of a provider, in bytes.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Longest key set, in bytes.
const KEYS_BYTES_MAX: usize = 512 * 1024;

/// Provider of one auth method.
pub(super) struct Provider {
    /// Content hash of the auth method.
    pub(super) hash: Blob,
    document: Mutex<Kept<Document>>,
    keys: Mutex<Kept<Vec<PublicKey>>>,
}

/// A fetched value, or the failure of the fetch.
struct Kept<T> {
    value: Option<(Instant, T)>,
    failure: Option<(Instant, String)>,
}

/// The provider's discovery document. Unneeded members are skipped.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Document {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) userinfo_endpoint: String,
    pub(super) jwks_uri: String,
    pub(super) code_challenge_methods_supported: Vec<String>,
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
}

/// Failure to verify a token by a provider's keys.
pub(super) enum KeysError {
    /// The keys could not be fetched.
    Fetch(String),
    /// None of the keys has signed the token.
    Unsigned,
}

impl From<KeysError> for Refusal {
    fn from(error: KeysError) -> Self {
        match error {
            KeysError::Fetch(text) => Refusal::Keys(text),
            KeysError::Unsigned => Refusal::UnsignedBySet,
        }
    }
}

impl<T: Clone> Kept<T> {
    const NOTHING: Self = Self { value: None, failure: None };

    fn younger_than(&self, age: Duration) -> Option<T> {
        self.value.as_ref().filter(|(since, _)| since.elapsed() < age).map(|(_, value)| value.clone())
    }

    fn recent_failure(&self) -> Option<String> {
        self.failure.as_ref().filter(|(since, _)| since.elapsed() < FAILURE_AGE_MAX).map(|(_, text)| text.clone())
    }

    fn keep(&mut self, fetched: Result<T, String>) -> Result<T, String> {
        match &fetched {
            Ok(value) => *self = Self { value: Some((Instant::now(), value.clone())), failure: None },
            Err(text) => self.failure = Some((Instant::now(), text.clone())),
        }
        fetched
    }
}

impl Provider {
    pub(super) fn new(hash: Blob) -> Self {
        Self { hash, document: Mutex::new(Kept::NOTHING), keys: Mutex::new(Kept::NOTHING) }
    }

    /// The discovery document. Its issuer must be the URL from which it was fetched.
    pub(super) async fn document(&self, fetch: &dyn Fetch, config: &AclAuthMethodConfig) -> Result<Document, String> {
        let mut kept = self.document.lock().await;
        if let Some(document) = kept.younger_than(DOCUMENT_AGE_MAX) {
            return Ok(document);
        }
        if let Some(text) = kept.recent_failure() {
            return Err(text);
        }
        let fetched = fetch_document(fetch, config).await;
        kept.keep(fetched)
    }

    /// Claims of a token that one of the provider's published keys has signed.
    pub(super) async fn claims(
        &self,
        fetch: &dyn Fetch,
        config: &AclAuthMethodConfig,
        token: &Compact,
    ) -> Result<Claims, KeysError> {
        let mut kept = self.keys.lock().await;
        if let Some(keys) = kept.younger_than(KEYS_AGE_MAX) {
            if let Some(claims) = token.claims_by_set(&keys) {
                return Ok(claims);
            }
            let is_known = token.kid.as_ref().is_some_and(|kid| keys.iter().any(|key| key.kid.as_ref() == Some(kid)));
            if is_known || kept.younger_than(KEYS_AGE_MIN).is_some() {
                return Err(KeysError::Unsigned);
            }
        }
        if let Some(text) = kept.recent_failure() {
            return Err(KeysError::Fetch(text));
        }
        let fetched = self.fetch_keys(fetch, config).await;
        let keys = kept.keep(fetched).map_err(KeysError::Fetch)?;
        token.claims_by_set(&keys).ok_or(KeysError::Unsigned)
    }

    async fn fetch_keys(&self, fetch: &dyn Fetch, config: &AclAuthMethodConfig) -> Result<Vec<PublicKey>, String> {
        let (url, ca_pem) = if config.jwks_url.is_empty() {
            (self.document(fetch, config).await?.jwks_uri, discovery_ca(config))
        } else {
            let ca = [&config.jwks_ca_cert].into_iter().filter(|pem| !pem.is_empty()).map(Str::to_string).collect();
            (config.jwks_url.to_string(), ca)
        };
        let body = body_of(fetch, Outgoing::get(&url, &ca_pem, KEYS_BYTES_MAX)).await?;
        jwt::key_set(&body).ok_or_else(|| format!("Get {url:?}: answer is no key set"))
    }
}

/// Certificates that connections to a method's provider trust.
pub(super) fn discovery_ca(config: &AclAuthMethodConfig) -> Vec<String> {
    config.discovery_ca_pem.iter().flatten().filter(|pem| !pem.is_empty()).map(Str::to_string).collect()
}

async fn fetch_document(fetch: &dyn Fetch, config: &AclAuthMethodConfig) -> Result<Document, String> {
    let issuer = config.oidc_discovery_url.as_str();
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let body = body_of(fetch, Outgoing::get(&url, &discovery_ca(config), DOCUMENT_BYTES_MAX)).await?;
    let read: Result<Document, _> = serde_json::from_slice(&body);
    let document = read.map_err(|error| format!("oidc: failed to decode provider discovery object: {error}"))?;
    if document.issuer != issuer {
        let found = &document.issuer;
        return Err(format!(
            "oidc: issuer did not match the issuer returned by provider, expected {issuer:?} got {found:?}"
        ));
    }
    let addresses = [
        ("authorization_endpoint", &document.authorization_endpoint),
        ("token_endpoint", &document.token_endpoint),
        ("userinfo_endpoint", &document.userinfo_endpoint),
        ("jwks_uri", &document.jwks_uri),
    ];
    for (name, address) in addresses {
        // A provider that was reached over TLS must not send us, or users, to URLs without TLS.
        let is_well = match form::scheme(address) {
            Some("https") => true,
            Some("http") => form::scheme(issuer) == Some("http"),
            Some(_) | None => address.is_empty(),
        };
        if !is_well {
            return Err(format!("oidc: {name} {address:?} of the provider has a scheme that is not allowed"));
        }
    }
    Ok(document)
}
