//! Logins with a token or at an OpenID provider: trusted keys, and logins under way.
//!
//! Binding rules (`songline_identity::login`) decide on the rights of a login; `songline_identity::jwt` checks tokens.
//! The shell has the sockets.

mod fetch;
mod form;
mod oidc;
mod provider;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_identity::jwt::{self, Claims, Compact, Expected, JwtError, PublicKey, Refusal};
use songline_model::{AclAuthMethod, AclAuthMethodConfig, Str, Time};

pub use fetch::{Credentials, Fetch, FetchError, FetchFuture, Fetched, Form, Outgoing};
pub use oidc::{AuthUrl, Callback, ConfigError, ExchangeError, OidcError};
use provider::Provider;
pub use requests::OpenError;
use requests::Requests;

/// Largest number of auth methods whose provider is cached. All are dropped when it is reached.
const PROVIDERS_MAX: usize = 256;

/// Cache of providers' keys, and logins under way. Both are lost with the process; then keys are fetched again, and
/// logins start over.
pub struct Sso {
    fetch: Arc<dyn Fetch>,
    providers: Mutex<BTreeMap<Str, Arc<Provider>>>,
    requests: Requests,
}

impl Sso {
    /// An empty cache. All requests to providers go through `fetch`.
    pub fn new(fetch: Arc<dyn Fetch>) -> Self {
        Self { fetch, providers: Mutex::default(), requests: Requests::default() }
    }

    /// Verifies a token by the method's keys and returns its claims.
    pub async fn verify(
        &self,
        method: &AclAuthMethod,
        config: &AclAuthMethodConfig,
        token: &str,
        now: Time,
    ) -> Result<Claims, JwtError> {
        let static_keys = config.jwt_validation_pub_keys.as_deref().unwrap_or_default();
        if static_keys.is_empty() && config.jwks_url.is_empty() && config.oidc_discovery_url.is_empty() {
            return Err(JwtError::NoKeys);
        }
        // One unusable key makes every login fail, whatever the token is.
        let keys = static_keys.iter().map(|pem| PublicKey::from_pem(pem)).collect::<Result<Vec<_>, _>>()?;
        // Parsed before keys are fetched: a malformed token causes no request to the provider.
        let token = Compact::parse(token)?;
        let claims = if keys.is_empty() {
            self.provider(method).claims(&*self.fetch, config, &token).await.map_err(Refusal::from)?
        } else {
            token.claims(keys.iter()).ok_or(Refusal::Unsigned)?
        };
        jwt::validate(&token, &claims, &Expected::of(config), now)?;
        Ok(claims)
    }

    /// The cached provider of a method. A changed method gets a new one.
    fn provider(&self, method: &AclAuthMethod) -> Arc<Provider> {
        let hash = method.hash.clone().unwrap_or_default();
        let mut providers = self.providers.lock();
        if let Some(known) = providers.get(&method.name).filter(|known| known.hash == hash) {
            return Arc::clone(known);
        }
        if providers.len() >= PROVIDERS_MAX {
            providers.clear();
        }
        let provider = Arc::new(Provider::new(hash));
        providers.insert(method.name.clone(), Arc::clone(&provider));
        provider
    }
}
