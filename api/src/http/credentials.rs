//! Token of a request and the caller that it authenticates, as parts of the request. `gate` decides what the caller
//! may do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use songline_model::Time;

use crate::caller::{AuthError, Caller, Callers};
use crate::http::capability::Capability;
use crate::server::Reads;

/// Token of a request, and the caller that it authenticates. A waiting query authenticates again.
#[derive(Clone)]
pub struct Credentials {
    callers: Arc<Callers>,
    capability: Capability,
    caller: Arc<Mutex<Result<Caller, AuthError>>>,
    admitted: Arc<AtomicBool>,
}

impl Credentials {
    /// Credentials before authentication.
    pub(super) fn new(callers: Arc<Callers>, capability: Capability) -> Self {
        Self { callers, capability, caller: Arc::new(Mutex::new(Err(AuthError::Unknown))), admitted: Arc::default() }
    }

    /// Right that the route of the request requires.
    pub(super) fn capability(&self) -> Capability {
        self.capability
    }

    /// The caller, as authenticated last.
    pub(super) fn caller(&self) -> Result<Caller, AuthError> {
        self.caller.lock().clone()
    }

    /// Replaces the caller.
    pub(super) fn set_caller(&self, caller: Result<Caller, AuthError>) {
        *self.caller.lock() = caller;
    }

    /// Notes that the rights of the caller were checked and suffice.
    pub(super) fn set_admitted(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }

    /// Whether the rights of the caller were checked and suffice.
    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Expiration of the token with which the request was admitted.
    pub(super) fn expires(&self) -> Option<Time> {
        self.caller.lock().as_ref().ok().and_then(|caller| caller.token()?.expiration_time)
    }

    /// Authenticates a token now.
    pub(super) fn authenticate<S: Reads>(&self, server: &S, token: &str) -> Result<Caller, AuthError> {
        self.callers.authenticate(server, token)
    }
}
