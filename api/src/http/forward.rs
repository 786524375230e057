//! Requests that the leader has to answer: here when it is this server, by passing them on when it is another, in a moment when it is nobody.
//!
//! The leader authenticates and judges, on its own view. What is not known to have been answered is asked again, of whoever leads by then:
//! reads freely, writes under a key with which they run once. How requests travel is the shell's.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Body as _;
use rand::RngExt;
use songline_model::Str;
use tokio::time::Instant;

use crate::error::{ApiError, Leaderless};
use crate::http::call::read_body;
use crate::http::params::{Query, WAIT_MAX};
use crate::http::passed::{self, PassedOn};
use crate::http::{Api, Target, answered_by, once};
use crate::server::{Leader, PassFailure, Server};

/// How long a request waits for somebody who leads.
const HOLD: Duration = Duration::from_secs(5);
/// How long at least and at most until the leader is asked again, when nobody says that it is another.
const POLL_MS: std::ops::Range<u64> = 20..80;
/// How long the leader may take for an answer that waits for nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Largest body that is kept to be sent again, in bytes. A larger one, or one of unknown length, is sent once.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// An answer, and whose it is.
pub(super) enum Answered {
    /// This server's.
    Own(Result<Response, ApiError>),
    /// Another server's: it goes to the caller as it is.
    Passed(Response),
}

/// A request, as long as it may have to be sent.
struct Whole {
    parts: Parts,
    body: Held,
}

enum Held {
    /// Read, to be sent as often as is needed.
    Kept(Bytes),
    /// Not read yet.
    Unread(Body),
    /// Sent, and not to be had again.
    Gone,
}

/// How long a request has been without somebody who answers it.
#[derive(Default)]
struct Hold {
    until: Option<Instant>,
    /// What may have become of it meanwhile.
    fate: Option<Leaderless>,
}

impl<S: Server> Api<S> {
    /// Has the leader answer a request.
    pub(super) async fn of_leader(&self, target: &Target<S>, parts: Parts, body: Body) -> Answered {
        let server = &*self.server;
        let passed = parts.extensions.get::<PassedOn>().cloned().unwrap_or_default();
        let is_read = answered_by::is_read(&parts.method, &target.path);
        let of_caller = parts.headers.contains_key(once::HEADER);
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
                            // A caller's key makes a write one that can be asked again elsewhere; a read is that anyhow.
                            if (is_read || of_caller)
                                && let Err(error) = whole.keep().await
                            {
                                return Answered::Own(Err(error));
                            }
                            let again = whole.is_kept();
                            let Some((mut parts, body)) = whole.take() else { return Answered::Own(Err(hold.failure())) };
                            // A leader before this one may have written it under the key that it was passed on with.
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
                                Err(ApiError { leaderless: Some(fate), .. }) if again && !passed.by_server => hold.begin(Some(fate)),
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
                    let patience = patience(&whole.parts, &target.path);
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
                            () = tokio::time::sleep(patience) => Err(PassFailure::Lost(format!("{address} does not answer"))),
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
                Leader::At(_) | Leader::Nobody => hold.begin(None),
            }
            if passed.by_server || !whole.is_there() || !hold.wait(server, &leader).await {
                let error = if is_read { no_leader(Leaderless::Nothing) } else { hold.failure() };
                return Answered::Own(Err(with_trouble(server, error)));
            }
        }
    }

    /// Whether this server, which leads, may answer: a read after a look at whether it still leads.
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
    /// Reads a body that is short enough to be sent again.
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

    /// The request, to be sent. `None`: it has been, and cannot be again.
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

    /// A request that was not sent after all.
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
        // What may have happened once may have happened, whatever came after.
        if self.fate != Some(Leaderless::Unknown) {
            self.fate = fate.or(self.fate);
        }
    }

    /// Waits a moment, or until `leader` is another. `false`: it has waited long enough.
    async fn wait<S: Server>(&self, server: &S, leader: &Leader) -> bool {
        let until = self.until.unwrap_or_else(Instant::now);
        if Instant::now() >= until {
            return false;
        }
        let pause = Duration::from_millis(rand::rng().random_range(POLL_MS));
        tokio::select! {
            () = server.leader_other_than(leader) => true,
            () = tokio::time::sleep(pause) => true,
            () = server.shutdown().cancelled() => false,
        }
    }

    /// What the caller of a write is told.
    fn failure(&self) -> ApiError {
        no_leader(self.fate.unwrap_or(Leaderless::Nothing))
    }
}

/// Who is told this in answer to a write knows whether it may have happened.
fn no_leader(fate: Leaderless) -> ApiError {
    let text = match fate {
        Leaderless::Nothing => "No cluster leader",
        Leaderless::Unknown => "leadership was lost before the outcome was known",
    };
    ApiError { leaderless: Some(fate), ..ApiError::internal(text) }
}

/// Nobody leads, and this server may be why.
fn with_trouble<S: Server>(server: &S, error: ApiError) -> ApiError {
    match server.disk_trouble().filter(|_| error.leaderless == Some(Leaderless::Nothing)) {
        Some(why) => ApiError { text: why.into(), ..error },
        None => error,
    }
}

/// How long an answer is waited for. A leader whose words come through and who does not hear this server is never replaced; asking it again
/// makes a new connection, which tells.
fn patience(parts: &Parts, path: &str) -> Duration {
    let takes_its_time = path.starts_with("/v1/system/") || path.starts_with("/v1/operator/snapshot");
    let waits = Query(parts.uri.query().unwrap_or_default()).get("index").is_some_and(|index| !index.is_empty() && index != "0");
    if takes_its_time || waits { WAIT_MAX + WAIT_MAX / 16 + ANSWER_WITHIN } else { ANSWER_WITHIN }
}

/// Returns when another than `known` leads, or nobody has for too long: whoever waits for an answer of `known` may wait for ever. The answer
/// is since when it is not known to lead.
async fn replaced<S: Server>(server: &S, known: &Leader) -> Instant {
    server.leader_other_than(known).await;
    let since = Instant::now();
    // While there is an election its answer may still come. Running out of time is as good as a new leader here.
    let _ = tokio::time::timeout(HOLD, server.leader_other_than(&Leader::Nobody)).await;
    since
}
