//! Logins that were started at a provider and are not completed. Each can be completed once, before it expires.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use songline_model::{Dur, Secret, Str, Time};

/// Largest number of logins under way.
const REQUESTS_MAX: usize = 4096;
/// Time until a login expires.
const LIFETIME: Dur = Dur::from_mins(6);

/// A login under way.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// State that the provider has to return.
    pub(super) state: Secret,
    /// Redirect URI that the provider was given.
    pub(super) redirect_uri: String,
    /// PKCE verifier: proves to the provider that the same client completes the login. `None`: PKCE is not used.
    pub(super) verifier: Option<Secret>,
    /// Expiration of the login.
    expires: Time,
}

/// Failure to start a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A login with the caller's nonce is under way.
    #[error("nonce reuse detected")]
    Reused,
    /// Too many logins are under way.
    #[error("too many auth requests in flight")]
    Full,
}

/// All logins under way.
#[derive(Default)]
pub(super) struct Requests {
    /// Logins by auth method and the caller's nonce.
    open: Mutex<BTreeMap<(Str, String), Open>>,
}

impl Requests {
    /// Registers a login.
    pub(super) fn open(
        &self,
        method: &Str,
        nonce: &str,
        now: Time,
        (state, redirect_uri, verifier): (Secret, String, Option<Secret>),
    ) -> Result<(), OpenError> {
        let mut open = self.open.lock();
        let key = (method.clone(), nonce.to_owned());
        if open.get(&key).is_some_and(|known| known.expires >= now) {
            return Err(OpenError::Reused);
        }
        if open.len() >= REQUESTS_MAX {
            open.retain(|_, known| known.expires >= now);
        }
        if open.len() >= REQUESTS_MAX {
            return Err(OpenError::Full);
        }
        open.insert(key, Open { state, redirect_uri, verifier, expires: now.plus(LIFETIME) });
        Ok(())
    }

    /// Removes and returns a login. It is removed whatever the outcome, so a login cannot be tried twice.
    pub(super) fn take(&self, method: &Str, nonce: &str, now: Time) -> Option<Open> {
        let taken = self.open.lock().remove(&(method.clone(), nonce.to_owned()));
        taken.filter(|open| open.expires >= now)
    }

    /// Number of logins under way.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.lock().len()
    }
}
