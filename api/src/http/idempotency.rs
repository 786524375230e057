//! Idempotency key of a request: what it covers, and the keys and ids derived from it. `once` runs requests that have
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;
use songline_commands::Idempotency;
use songline_model::Str;
use uuid::Uuid;

/// The header that carries the key.
pub(super) const HEADER: &str = "idempotency-key";

/// Idempotency key of one request, the hash of the request, and the number of commands and ids that the request has
/// used.
#[derive(Debug)]
pub struct Once {
    pub(super) key: Str,
    hasher: blake3::Hasher,
    pub(super) commands: Arc<AtomicU64>,
    ids: AtomicU64,
    /// Whether a server made the key, for one request that it forwards. Such a key never comes with another body.
    pub(super) forwarded: bool,
}

impl Once {
    /// The key of a request, if it has one. `parts` are method, path and query; `sender` is the caller's token.
    pub(super) fn of(parts: [&str; 3], sender: &str, headers: &HeaderMap) -> Option<Self> {
        let key = headers.get(HEADER)?.to_str().ok().filter(|key| !key.is_empty())?;
        let mut hasher = blake3::Hasher::new();
        for part in parts.into_iter().chain(Some(sender).filter(|sender| !sender.is_empty())) {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        Some(Self { key: Str::new(key), hasher, commands: Arc::default(), ids: AtomicU64::new(0), forwarded: false })
    }

    /// The key of a server that forwarded a request.
    pub fn forwarded(key: Str) -> Self {
        Self { key, hasher: blake3::Hasher::new(), commands: Arc::default(), ids: AtomicU64::new(0), forwarded: true }
    }

    /// Adds the body to the hash: another body under the same key is another write.
    pub fn hash_body(&mut self, body: &[u8]) {
        if !self.forwarded {
            self.hasher.update(body);
        }
    }

    /// The same key and hash, with no command or id used.
    pub(super) fn anew(&self) -> Self {
        let (key, hasher) = (self.key.clone(), self.hasher.clone());
        Self { key, hasher, commands: Arc::default(), ids: AtomicU64::new(0), forwarded: self.forwarded }
    }

    /// Hash of the request, as far as the key covers it.
    pub(super) fn hash(&self) -> [u8; 16] {
        if self.forwarded { [0; 16] } else { first_16(self.hasher.finalize()) }
    }

    /// Key of the request's next command. Each further command of a request gets a key of its own.
    pub fn next(&self) -> Idempotency {
        let nth = self.commands.fetch_add(1, Ordering::Relaxed);
        let key = if nth == 0 { self.key.clone() } else { Str::from(format!("{}#{nth}", self.key)) };
        Idempotency { key, body_hash: self.hash(), forwarded: self.forwarded }
    }

    /// Whether the key comes from the caller, not from a server.
    pub(super) fn is_of_caller(&self) -> bool {
        !self.forwarded
    }

    /// The request's next id. It is derived from the key, so that a retry makes the same ids. It must not be used as
    /// a secret: it can be derived from key and request.
    pub fn fresh_uuid(&self) -> Uuid {
        let nth = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut hasher = self.hasher.clone();
        hasher.update(self.key.as_bytes());
        hasher.update(&nth.to_be_bytes());
        Uuid::new_v8(first_16(hasher.finalize()))
    }
}

fn first_16(hash: blake3::Hash) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&hash.as_bytes()[..16]);
    out
}
