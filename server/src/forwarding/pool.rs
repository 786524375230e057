//! Idle connections that wait for their next request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Sends requests over one connection, one after the other.
pub(super) type Sender = SendRequest<Body>;

/// Largest number of idle connections to one address. Up to this many concurrent requests need no new connections.
const KEPT_MAX: usize = 512;
/// Idle timeout. Shorter than the other side's, so that the other side does not close a connection that is about to
/// be used.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// An idle connection, and the time since when it is idle.
type Waiting = (Sender, Instant);

/// Idle connections by address. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Pool {
    kept: Arc<Mutex<BTreeMap<Box<str>, Vec<Waiting>>>>,
}

impl Pool {
    /// Takes the connection that was used last; the older ones below it reach their idle timeout.
    pub(super) fn take(&self, address: &str) -> Option<Sender> {
        let mut kept = self.kept.lock();
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
        let mut kept = self.kept.lock();
        let waiting = match kept.get_mut(address) {
            Some(waiting) => waiting,
            None => kept.entry(address.into()).or_default(),
        };
        if waiting.len() < KEPT_MAX {
            waiting.push((sender, Instant::now()));
        }
    }

    /// Closes all idle connections to an address.
    pub(super) fn forget(&self, address: &str) {
        self.kept.lock().remove(address);
    }
}
