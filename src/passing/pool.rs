//! Connections that wait for their next request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use hyper::client::conn::http1::SendRequest;

/// Sends requests over one connection, one after the other.
pub(super) type Sender = SendRequest<Body>;

/// How many connections to one address wait at most. As many requests under way at once cost no new connections.
const KEPT_MAX: usize = 512;
/// How long a connection waits. Shorter than the other side waits, so that it is not the other side that ends it.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// A connection, and since when it waits.
type Waiting = (Sender, Instant);

/// Connections without a request, by address. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Pool {
    kept: Arc<Mutex<BTreeMap<Box<str>, Vec<Waiting>>>>,
}

impl Pool {
    /// The connection that was used last: those below it get old and go.
    pub(super) fn take(&self, address: &str) -> Option<Sender> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = kept.get_mut(address)?;
        while let Some((sender, since)) = waiting.pop() {
            if since.elapsed() >= KEPT_FOR {
                waiting.clear();
            } else if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    /// Keeps a connection for its next request.
    pub(super) fn give_back(&self, address: &str, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = match kept.get_mut(address) {
            Some(waiting) => waiting,
            None => kept.entry(address.into()).or_default(),
        };
        if waiting.len() < KEPT_MAX {
            waiting.push((sender, Instant::now()));
        }
    }

    /// Lets all connections to an address go.
    pub(super) fn forget(&self, address: &str) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(address);
    }
}
