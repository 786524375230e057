//! Logging in with a token or with an OpenID provider: whose keys are believed, and which logins are under way.
//!
//! What a login may do is decided by binding rules (`songline_lang::login`); tokens are checked by `songline_lang::jwt`. Sockets are the shell's.

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
use songline_lang::jwt::{self, Claims, Compact, Expected, JwtError, PublicKey, Refusal};
use songline_model::{AclAuthMethod, AclAuthMethodConfig, Str, Time};

pub use fetch::{Credentials, Fetch, FetchError, FetchFuture, Fetched, Form, Outgoing};
pub use oidc::{AuthUrl, Callback, ConfigError, ExchangeError, OidcError};
use provider::Provider;
pub use requests::OpenError;
use requests::Requests;

/// How many auth methods' keys are kept at most.
const PROVIDERS_MAX: usize = 256;

/// What logins need beyond the state. It is gone with the process; then keys are fetched again, and logins under way begin anew.
pub struct Sso {
    fetch: Arc<dyn Fetch>,
    providers: Mutex<BTreeMap<Str, Arc<Provider>>>,
    requests: Requests,
}

impl Sso {
    /// Nothing known yet. Everything outside is asked through `fetch`.
    pub fn new(fetch: Arc<dyn Fetch>) -> Self {
        Self { fetch, providers: Mutex::default(), requests: Requests::default() }
    }

    /// The claims of a token that this method believes.
    pub async fn verify(&self, method: &AclAuthMethod, config: &AclAuthMethodConfig, token: &str, now: Time) -> Result<Claims, JwtError> {
        let static_keys = config.jwt_validation_pub_keys.as_deref().unwrap_or_default();
        if static_keys.is_empty() && config.jwks_url.is_empty() && config.oidc_discovery_url.is_empty() {
            return Err(JwtError::NoKeys);
        }
        // A token that is none costs nobody a request.
        let token = Compact::parse(token)?;
        let claims = if static_keys.is_empty() {
            self.provider(method).claims(&*self.fetch, config, &token).await.map_err(Refusal::from)?
        } else {
            let keys = static_keys.iter().map(|pem| PublicKey::from_pem(pem)).collect::<Result<Vec<_>, _>>()?;
            token.claims(keys.iter()).ok_or(Refusal::Unsigned)?
        };
        jwt::validate(&token, &claims, &Expected::of(config), now)?;
        Ok(claims)
    }

    /// What is known of a method's provider. A method that was changed begins anew.
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
