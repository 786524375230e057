//! Idempotency keys, with which callers make a retried write run once. Apply decides whether a key was used before.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use bytes::Bytes;
use parking_lot::Mutex;
use songline_projections::Rejected;

use crate::error::ApiError;
use crate::http::call::{BODY_BYTES_MAX, Call, kept, read_body};
use crate::http::capability::Capability;
use crate::http::gate;
use crate::http::idempotency::Once;
use crate::http::mux::Handler;
use crate::http::past;
use crate::http::std_params::StdParams;
use crate::http::when::PastView;
use crate::server::{Agent, Reads, Status};

/// The only write whose body is read by its handler, because the body has a bound of its own.
const ARCHIVES: &str = "/v1/operator/snapshot";

/// Routes on which a caller's key is ignored. They run once without a key, and answer with a secret to a caller
/// without a token. A key is no secret, so knowing it must not suffice for that answer.
const ONCE_ANYHOW: [&str; 2] = ["/v1/acl/bootstrap", "/v1/acl/token/onetime/exchange"];

/// Runs the handler. A write whose key was used before gets its first answer.
///
/// On the newest state a repeated write may be refused or have nothing to do: the job is gone, the expected index has
/// passed. Then the handler runs again on the state before the first run, and apply, which knows the key, repeats its
/// first answer. A write with a caller's own key is run on that old state at once: an answer from the newest state
/// might only look like the first one.
pub(super) async fn run<S: Reads + Status>(
    handler: Handler<S>,
    std_params: StdParams,
    mut call: Call<S>,
) -> Result<Response, ApiError> {
    // Checked first: the answer stored under a key is only for callers that may do the write now.
    gate::check(&call, std_params)?;
    let once = of_caller(&call).or_else(|| call.forward_key.take().map(Once::forwarded));
    let Some(mut once) = once.filter(|_| call.method != Method::GET) else { return past::run(handler, call).await };
    // The key of a server covers no body, so the body is not read unless the key was used before.
    let first_time = || once.forwarded && call.server.view().remembered(&once.key, call.server.now()).is_none();
    if call.path == ARCHIVES || first_time() {
        call.once = Some(once);
        return past::run(handler, call).await;
    }
    let body = read_body(call.take_body(), BODY_BYTES_MAX).await?;
    once.hash_body(&body);
    let first = call.server.view().remembered(&once.key, call.server.now()).cloned();
    let Some(first) = first else { return past::run(handler, again(&call, &once, &body, None)).await };
    // The handler, which would check a late capability, may not run.
    call.demand()?;
    if first.body_hash != once.hash() {
        return Err(Rejected::IdempotencyKeyReused(once.key).into());
    }
    // A handler that checks the rights by itself runs again, on the state before the first run, and gives the same
    // answer.
    let checks_itself = matches!(call.credentials.capability().demanded(), Capability::Object(_));
    if let Some(answer) = first.answer.as_ref().filter(|_| !checks_itself) {
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
        // The old state is not retained any more: the answer from the newest state is the best one.
        None => answer,
    }
}

/// The key that the caller sent. `None` also on the routes that ignore it.
fn of_caller<S: Agent>(call: &Call<S>) -> Option<Once> {
    // The hash covers the sender's token: another caller with the same key and request does not get the first
    // caller's answer.
    let sender = if call.server.info().acl.enabled { call.token() } else { "" };
    let once = Once::of([call.method.as_str(), &call.path, &call.query], sender, &call.headers)?;
    (!ONCE_ANYHOW.contains(&call.path.as_str())).then_some(once)
}

/// A copy of the request with unused ids and commands.
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
        stale_error: Arc::clone(&call.stale_error),
        only_new: call.only_new,
        encoding: call.encoding,
        past,
    }
}
