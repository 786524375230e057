//! Requests for the leader: handled here when this server leads, forwarded when another server leads, and held for a
//! moment when there is no leader.
//!
//! The leader authenticates and checks a request on its own view. A request without an answer is sent again to the
//! then leader: reads freely, writes under an idempotency key with which they run once. The shell has the transport.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Body as _;
use songline_model::Str;
use tokio::time::Instant;

use crate::error::{ApiError, Leaderless};
use crate::http::api::{Api, Target};
use crate::http::call::read_body;
use crate::http::params::{Query, WAIT_MAX};
use crate::http::passed::{self, PassedOn};
use crate::http::{answered_by, idempotency};
use crate::server::{Leader, Leading, PassFailure, Server};

/// Longest time that a request waits for a leader.
const HOLD: Duration = Duration::from_secs(5);
/// Range of the random interval between attempts to reach a leader, in milliseconds. A change of the leader ends the
/// wait earlier.
const POLL_MS: std::ops::Range<u64> = 20..80;
/// Timeout of the leader's answer to a request that waits for nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Largest body that is buffered for retries, in bytes. A larger one, or one of unknown length, is sent once.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// A response, and the server that made it.
pub(super) enum Answered {
    /// This server's response.
    Own(Result<Response, ApiError>),
    /// Another server's response, which goes to the caller unchanged.
    Passed(Response),
}

/// A request that may have to be sent again.
struct Whole {
    parts: Parts,
    body: Held,
}

enum Held {
    /// Buffered, so that it can be sent again.
    Kept(Bytes),
    /// Not read yet.
    Unread(Body),
    /// Sent and not buffered.
    Gone,
}

/// Time that a request has spent without a leader's answer.
#[derive(Default)]
struct Hold {
    until: Option<Instant>,
    /// Possible fate of the request in earlier attempts.
    fate: Option<Leaderless>,
}

impl<S: Server> Api<S> {
    /// Has the leader answer a request.
    pub(super) async fn of_leader(&self, target: &Target<S>, parts: Parts, body: Body) -> Answered {
        let server = &*self.server;
        let passed = parts.extensions.get::<PassedOn>().cloned().unwrap_or_default();
        let is_read = answered_by::is_read(&parts.method, &target.path);
        let of_caller = parts.headers.contains_key(idempotency::HEADER);
        let mut key = passed.key.clone().filter(|_| !is_read && !of_caller);
        let mut whole = Whole { parts, body: Held::Unread(body) };
        let mut hold = Hold::default();
        loop {
            let leader = server.leader();
            match &leader {
                Leader::Here => {
                    match self.ready(&whole.parts, is_read).await {
                        Err(error) if error.leaderless.is_some() => hold.begin(None),
                        Err(error) => return Answered::Own(Err(error)),
                        Ok(()) => {
                            // A write with the caller's key may be sent to another leader, and so may a read: both
                            // need their body buffered.
                            if (is_read || of_caller)
                                && let Err(error) = whole.keep().await
                            {
                                return Answered::Own(Err(error));
                            }
                            let again = whole.is_kept();
                            let Some((mut parts, body)) = whole.take() else {
                                return Answered::Own(Err(hold.failure()));
                            };
                            // An earlier leader may have written it under the key with which it was forwarded, so the
                            // same key is used here.
                            if key.is_some() {
                                parts.extensions.insert(PassedOn { key: key.clone(), ..passed.clone() });
                            }
                            let answer = self.here(target, parts, body);
                            let answer = if is_read {
                                tokio::select! {
                                    answer = answer => answer,
                                    () = server.leader_other_than(&leader) => Err(no_leader(Leaderless::Nothing)),
                                }
                            } else {
                                answer.await
                            };
                            match answer {
                                Err(ApiError { leaderless: Some(fate), .. }) if again && !passed.by_server => {
                                    hold.begin(Some(fate))
                                }
                                answer => return Answered::Own(answer),
                            }
                        }
                    }
                }
                Leader::At(address) if !passed.by_server => {
                    if let Err(error) = whole.keep().await {
                        return Answered::Own(Err(error));
                    }
                    let again = whole.is_kept();
                    let longest_wait = longest_wait(&whole.parts, &target.path);
                    if again && !is_read && !of_caller && key.is_none() {
                        key = Some(Str::from(server.fresh_uuid().simple().to_string()));
                    }
                    let Some((mut parts, body)) = whole.take() else { return Answered::Own(Err(hold.failure())) };
                    let from = parts.extensions.get().copied();
                    passed::put(&mut parts.headers, from, key.as_ref().filter(|_| again));
                    let attempt = server.pass_on(address, Request::from_parts(parts, body));
                    let outcome = if again {
                        tokio::select! {
                            outcome = attempt => outcome,
                            since = replaced(server, &leader) => {
                                hold.until.get_or_insert(since + HOLD);
                                Err(PassFailure::Lost(format!("{address} leads no longer")))
                            }
                            () = server.leader_is_deaf(address) => Err(PassFailure::Lost(format!("{address} does not hear this server"))),
                            () = tokio::time::sleep(longest_wait) => Err(PassFailure::Lost(format!("{address} does not answer"))),
                        }
                    } else {
                        attempt.await
                    };
                    match outcome {
                        Ok(mut response) => match passed::told(response.headers_mut()) {
                            Some(fate) if again => hold.begin(Some(fate)),
                            Some(_) | None => return Answered::Passed(response),
                        },
                        Err(PassFailure::NotSent { request, why }) => {
                            tracing::debug!(%address, why, "the leader could not be asked");
                            whole.back(*request);
                            hold.begin(None);
                        }
                        Err(PassFailure::Lost(why)) => {
                            tracing::debug!(%address, why, again, "the leader's answer did not come");
                            hold.begin(Some(Leaderless::Unknown));
                        }
                    }
                }
                Leader::At(_) | Leader::Unknown => hold.begin(None),
            }
            if passed.by_server || !whole.is_there() || !hold.wait(server, &leader).await {
                let error = if is_read { no_leader(Leaderless::Nothing) } else { hold.failure() };
                return Answered::Own(Err(with_trouble(server, error)));
            }
        }
    }

    /// Whether this leader may answer. A read first confirms that the server still leads.
    async fn ready(&self, parts: &Parts, is_read: bool) -> Result<(), ApiError> {
        if !is_read {
            self.server.ready_to_lead().await?;
        } else if Query(parts.uri.query().unwrap_or_default()).flag("consistent") {
            self.server.read_barrier().await?;
        } else {
            self.server.lease_barrier().await?;
        }
        Ok(())
    }
}

impl Whole {
    /// Buffers a body that is short enough for retries.
    async fn keep(&mut self) -> Result<(), ApiError> {
        match std::mem::replace(&mut self.body, Held::Gone) {
            Held::Unread(body) if body.size_hint().upper().is_some_and(|bytes| bytes <= KEPT_BYTES_MAX) => {
                self.body = Held::Kept(read_body(body, KEPT_BYTES_MAX as usize).await?);
            }
            other => self.body = other,
        }
        Ok(())
    }

    fn is_kept(&self) -> bool {
        matches!(self.body, Held::Kept(_))
    }

    fn is_there(&self) -> bool {
        !matches!(self.body, Held::Gone)
    }

    /// The request to send. `None`: it has been sent and was not buffered.
    fn take(&mut self) -> Option<(Parts, Body)> {
        let body = match std::mem::replace(&mut self.body, Held::Gone) {
            Held::Kept(bytes) => {
                self.body = Held::Kept(bytes.clone());
                Body::from(bytes)
            }
            Held::Unread(body) => {
                let nothing = Request::new(()).into_parts().0;
                return Some((std::mem::replace(&mut self.parts, nothing), body));
            }
            Held::Gone => return None,
        };
        Some((self.parts.clone(), body))
    }

    /// Takes back a request that was not sent.
    fn back(&mut self, request: Request) {
        if !self.is_kept() {
            let (parts, body) = request.into_parts();
            *self = Self { parts, body: Held::Unread(body) };
        }
    }
}

impl Hold {
    fn begin(&mut self, fate: Option<Leaderless>) {
        self.until.get_or_insert_with(|| Instant::now() + HOLD);
        // A write that may have happened in one attempt stays possible, whatever came after.
        if self.fate != Some(Leaderless::Unknown) {
            self.fate = fate.or(self.fate);
        }
    }

    /// Waits for a moment, or until the leader is another one than `leader`. False: the time for waiting is up.
    async fn wait<S: Leading>(&self, server: &S, leader: &Leader) -> bool {
        let until = self.until.unwrap_or_else(Instant::now);
        if Instant::now() >= until {
            return false;
        }
        let pause = Duration::from_millis(server.chance(POLL_MS));
        tokio::select! {
            () = server.leader_other_than(leader) => true,
            () = tokio::time::sleep(pause) => true,
            () = server.shutdown().cancelled() => false,
        }
    }

    /// The error for the caller.
    fn failure(&self) -> ApiError {
        no_leader(self.fate.unwrap_or(Leaderless::Nothing))
    }
}

/// The error of a write tells whether the write may have happened.
fn no_leader(fate: Leaderless) -> ApiError {
    let text = match fate {
        Leaderless::Nothing => "No cluster leader",
        Leaderless::Unknown => "leadership was lost before the outcome was known",
    };
    ApiError { leaderless: Some(fate), ..ApiError::internal(text) }
}

/// Adds this server's disk failure to an error that is caused by the lack of a leader: it may be the reason.
fn with_trouble<S: Leading>(server: &S, error: ApiError) -> ApiError {
    match server.disk_trouble().filter(|_| error.leaderless == Some(Leaderless::Nothing)) {
        Some(why) => ApiError { text: why.into(), ..error },
        None => error,
    }
}

/// Timeout of the leader's answer. A leader whose messages arrive here while it does not receive ours is never
/// replaced by an election. A retry makes a new connection, which shows whether the leader still receives.
fn longest_wait(parts: &Parts, path: &str) -> Duration {
    let takes_its_time = path.starts_with("/v1/system/") || path.starts_with("/v1/operator/snapshot");
    let waits = Query(parts.uri.query().unwrap_or_default())
        .get("index")
        .is_some_and(|index| !index.is_empty() && index != "0");
    if takes_its_time || waits { WAIT_MAX + WAIT_MAX / 16 + ANSWER_WITHIN } else { ANSWER_WITHIN }
}

/// Returns when another server than `known` leads, or when there has been no leader for [`HOLD`]: an answer of
/// `known` may never come then. Returns the time at which `known` was found not to lead any more.
async fn replaced<S: Leading>(server: &S, known: &Leader) -> Instant {
    server.leader_other_than(known).await;
    let since = Instant::now();
    // The answer may still come during an election. A timeout here has the same effect as a new leader.
    let _ = tokio::time::timeout(HOLD, server.leader_other_than(&Leader::Unknown)).await;
    since
}
