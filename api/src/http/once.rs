//! Idempotency keys: what a caller sends so that a retried write runs once. Whether it ran before is decided by apply.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, Method};
use songline_commands::Idempotency;
use songline_model::Str;
use uuid::Uuid;

/// The header that carries the key.
const HEADER: &str = "idempotency-key";

/// One request's key, what came with it, and how many commands and ids it has used.
#[derive(Debug)]
pub struct Once {
    key: Str,
    hasher: blake3::Hasher,
    commands: AtomicU64,
    ids: AtomicU64,
}

impl Once {
    /// The key of a request, if it has one.
    pub fn of(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> Option<Self> {
        let key = headers.get(HEADER)?.to_str().ok().filter(|key| !key.is_empty())?;
        let mut hasher = blake3::Hasher::new();
        for part in [method.as_str(), path, query] {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        Some(Self { key: Str::new(key), hasher, commands: AtomicU64::new(0), ids: AtomicU64::new(0) })
    }

    /// The body counts, too: another one under the same key is another write.
    pub fn hash_body(&mut self, body: &[u8]) {
        self.hasher.update(body);
    }

    /// The key of the request's next command. A request that needs several gives each its own.
    pub fn next(&self) -> Idempotency {
        let nth = self.commands.fetch_add(1, Ordering::Relaxed);
        let key = if nth == 0 { self.key.clone() } else { Str::from(format!("{}#{nth}", self.key)) };
        Idempotency { key, body_hash: first_16(self.hasher.finalize()) }
    }

    /// The request's next id: made of the key, so that a retry makes the same.
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
