//! Logins that have begun at a provider and have not come back. Each comes back once, or not in time.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use songline_model::{Dur, Secret, Str, Time};

/// How many logins may be under way.
const REQUESTS_MAX: usize = 4096;
/// How long somebody may take to log in at their provider.
const LIFETIME: Dur = Dur::from_mins(6);

/// One login.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// What the provider has to give back.
    pub(super) state: Secret,
    /// Where it was told to send the caller.
    pub(super) redirect_uri: String,
    /// What proves to the provider that who comes back is who began. `None`: it does not want that.
    pub(super) verifier: Option<Secret>,
    /// When it is too late.
    expires: Time,
}

/// Why a login does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The caller's nonce has a login already.
    #[error("nonce reuse detected")]
    Reused,
    /// Too many have begun and not come back.
    #[error("too many auth requests in flight")]
    Full,
}

/// All logins under way.
#[derive(Default)]
pub(super) struct Requests {
    /// By auth method and the caller's nonce.
    open: Mutex<BTreeMap<(Str, String), Open>>,
}

impl Requests {
    /// Begins a login.
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

    /// Takes a login that comes back, whatever comes of it: nobody tries twice.
    pub(super) fn take(&self, method: &Str, nonce: &str, now: Time) -> Option<Open> {
        let taken = self.open.lock().remove(&(method.clone(), nonce.to_owned()));
        taken.filter(|open| open.expires >= now)
    }

    /// How many are under way.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.lock().len()
    }
}
