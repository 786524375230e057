//! Idempotency keys: what a caller sends so that a retried write runs once. Whether it ran before is decided by apply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use bytes::Bytes;
use parking_lot::Mutex;
use songline_commands::{Idempotency, KeepAnswer};
use songline_model::Str;
use songline_projections::Rejected;
use uuid::Uuid;

use crate::error::ApiError;
use crate::http::call::{BODY_BYTES_MAX, Call, read_body, set_index};
use crate::http::gate;
use crate::http::mux::Handler;
use crate::http::past::{self, PastView};
use crate::server::Server;

/// The header that carries the key.
pub(super) const HEADER: &str = "idempotency-key";

/// The one write whose body is read by its handler: it has a bound of its own.
const ARCHIVES: &str = "/v1/operator/snapshot";

/// Routes on which a caller's key is ignored. They run once without a key, and answer a secret to a caller who shows no token. A key is no
/// secret: whoever knows it must not get that answer again.
const ONCE_ANYHOW: [&str; 2] = ["/v1/acl/bootstrap", "/v1/acl/token/onetime/exchange"];

/// Answers a request. A write whose key ran before gets its first answer.
///
/// Today a repeated write may be refused or have nothing to do: the job is gone, the expected index has passed. Then the handler runs again
/// on the state before the first run, and apply, which knows the key, answers as it did then. With a caller's own key this is done at once:
/// an answer from today's state may only look like the first one.
pub(super) async fn run<S: Server>(handler: Handler<S>, mut call: Call<S>) -> Result<Response, ApiError> {
    // Before all else: what ran under a key is told only to whom may do it now.
    gate::check(&call)?;
    let once = of_caller(&call).or_else(|| call.forward_key.take().map(Once::forwarded));
    let Some(mut once) = once.filter(|_| call.method != Method::GET) else { return past::run(handler, call).await };
    // A server's key has no body to be compared, so it needs none while nothing ran under it.
    let first_time = || once.forwarded && call.server.view().remembered(&once.key, call.server.now()).is_none();
    if call.path == ARCHIVES || first_time() {
        call.once = Some(once);
        return past::run(handler, call).await;
    }
    let body = read_body(call.take_body(), BODY_BYTES_MAX).await?;
    once.hash_body(&body);
    let first = call.server.view().remembered(&once.key, call.server.now()).cloned();
    let Some(first) = first else { return past::run(handler, again(&call, &once, &body, None)).await };
    if first.body_hash != once.hash() {
        return Err(Rejected::IdempotencyKeyReused(once.key).into());
    }
    if let Some(answer) = &first.answer {
        return Ok(kept(answer));
    }
    let before = async || {
        let state = call.server.past()?.state_at(first.index.saturating_sub(1)).await.ok()?;
        Some(Arc::new(PastView::new(state)))
    };
    if !once.forwarded
        && let view @ Some(_) = before().await
    {
        return handler(again(&call, &once, &body, view)).await;
    }
    let retry = again(&call, &once, &body, None);
    let proposed = retry.once.as_ref().map(|once| Arc::clone(&once.commands));
    let answer = past::run(handler, retry).await;
    let has_proposed = proposed.is_some_and(|commands| commands.load(Ordering::Relaxed) > 0);
    if answer.is_ok() && has_proposed {
        return answer;
    }
    match before().await {
        view @ Some(_) => handler(again(&call, &once, &body, view)).await,
        // Too long ago: what the request comes to today is all that can be said.
        None => answer,
    }
}

/// The response of a stored answer.
pub(super) fn kept(answer: &KeepAnswer) -> Response {
    let mut response = Response::new(Body::from(answer.body.to_string()));
    if !answer.body.is_empty() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some(index) = answer.index {
        set_index(&mut response, index);
    }
    response
}

/// The key that the caller sent. `None` also on the routes that ignore it.
fn of_caller<S: Server>(call: &Call<S>) -> Option<Once> {
    // A key belongs to its sender: another caller who sends it with the same request does not get the answer of the first one.
    let sender = if call.server.info().acl.enabled { call.token() } else { "" };
    let once = Once::of([call.method.as_str(), &call.path, &call.query], sender, &call.headers)?;
    (!ONCE_ANYHOW.contains(&call.path.as_str())).then_some(once)
}

/// The same request anew.
fn again<S>(call: &Call<S>, once: &Once, body: &Bytes, past: Option<Arc<PastView>>) -> Call<S> {
    Call {
        server: Arc::clone(&call.server),
        method: call.method.clone(),
        path: call.path.clone(),
        id: call.id.clone(),
        query: call.query.clone(),
        headers: call.headers.clone(),
        credentials: call.credentials.clone(),
        body: Mutex::new(Body::from(body.clone())),
        once: Some(once.anew()),
        stalled: call.stalled.clone(),
        peer: call.peer,
        upgrade: call.upgrade.clone(),
        forward_key: None,
        rate: call.rate,
        past,
    }
}

/// One request's key, what came with it, and how many commands and ids it has used.
#[derive(Debug)]
pub struct Once {
    key: Str,
    hasher: blake3::Hasher,
    commands: Arc<AtomicU64>,
    ids: AtomicU64,
    /// Whether a server made it, for one request that it passes on. It never comes with another body.
    forwarded: bool,
}

impl Once {
    /// The key of a request, if it has one. `parts` are method, path and query; `sender` is the token of the caller.
    fn of(parts: [&str; 3], sender: &str, headers: &HeaderMap) -> Option<Self> {
        let key = headers.get(HEADER)?.to_str().ok().filter(|key| !key.is_empty())?;
        let mut hasher = blake3::Hasher::new();
        for part in parts.into_iter().chain(Some(sender).filter(|sender| !sender.is_empty())) {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        Some(Self { key: Str::new(key), hasher, commands: Arc::default(), ids: AtomicU64::new(0), forwarded: false })
    }

    /// The key of a server that passed a request on.
    pub fn forwarded(key: Str) -> Self {
        Self { key, hasher: blake3::Hasher::new(), commands: Arc::default(), ids: AtomicU64::new(0), forwarded: true }
    }

    /// The body counts, too: another one under the same key is another write.
    pub fn hash_body(&mut self, body: &[u8]) {
        if !self.forwarded {
            self.hasher.update(body);
        }
    }

    /// The same key and body, and nothing used yet.
    fn anew(&self) -> Self {
        let (key, hasher) = (self.key.clone(), self.hasher.clone());
        Self { key, hasher, commands: Arc::default(), ids: AtomicU64::new(0), forwarded: self.forwarded }
    }

    fn hash(&self) -> [u8; 16] {
        if self.forwarded { [0; 16] } else { first_16(self.hasher.finalize()) }
    }

    /// The key of the request's next command. A request that needs several gives each its own.
    pub fn next(&self) -> Idempotency {
        let nth = self.commands.fetch_add(1, Ordering::Relaxed);
        let key = if nth == 0 { self.key.clone() } else { Str::from(format!("{}#{nth}", self.key)) };
        Idempotency { key, body_hash: self.hash(), forwarded: self.forwarded }
    }

    /// Whether it is the key of a caller, not that of a server.
    pub(super) fn is_of_caller(&self) -> bool {
        !self.forwarded
    }

    /// The request's next id. It is derived from the key, so that a retry makes the same one. Never a secret: whoever knows key and request
    /// can derive it, too.
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
