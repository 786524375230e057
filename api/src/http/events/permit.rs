//! Permit of a stream: checks whether the token that opened it still permits it.

use std::sync::Arc;

use parking_lot::Mutex;
use songline_events::hub::{CLOSED, Interest, Permit};
use songline_projections::{State, Table};

use crate::caller::AuthError;
use crate::http::call::Call;
use crate::http::credentials::Credentials;
use crate::server::Reads;

/// Tables that determine the rights of a token.
const TABLES: [Table; 3] = [Table::AclPolicy, Table::AclToken, Table::AclRoles];

/// The token of a stream. Its rights are looked up again only after a write to an ACL table; its expiration is
/// checked every time.
pub(super) struct TokenPermit<S> {
    server: Arc<S>,
    credentials: Credentials,
    token: String,
    interest: Interest,
    /// Indexes of the tables at the last look-up.
    seen: Mutex<[u64; TABLES.len()]>,
}

fn indexes(view: &State) -> [u64; TABLES.len()] {
    TABLES.map(|table| view.table_index(table))
}

impl<S: Reads> TokenPermit<S> {
    pub(super) fn new(call: &Call<S>, interest: Interest) -> Self {
        Self {
            server: Arc::clone(&call.server),
            credentials: call.credentials.clone(),
            token: call.token().to_owned(),
            interest,
            // Zero forces a look-up at the first check, so that writes since the request was admitted are seen.
            seen: Mutex::new([0; TABLES.len()]),
        }
    }
}

impl<S: Reads> Permit for TokenPermit<S> {
    fn refusal(&self) -> Option<String> {
        let now = indexes(&self.server.view());
        let mut seen = self.seen.lock();
        let expires = self.credentials.expires().is_some_and(|at| at < self.server.now());
        if *seen == now && !expires {
            return None;
        }
        *seen = now;
        match self.credentials.authenticate(&*self.server, &self.token) {
            Ok(caller) if self.interest.is_still_readable_by(&caller.shared_acl()) => None,
            Ok(_) | Err(AuthError::Unknown | AuthError::BadIdentity(_) | AuthError::BadPolicy(_)) => {
                Some(CLOSED.to_owned())
            }
            Err(error @ AuthError::Expired) => Some(error.to_string()),
        }
    }
}
