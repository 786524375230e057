//! One request as a handler sees it, and its possible responses. Routing, compression and CORS are layers around it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use songline_commands::{Actor, Command, KeepAnswer};
use songline_lang::go_json;
use songline_model::Str;
use songline_projections::{Outcome, State};
use songline_wire::responses::QueryMeta;
use uuid::Uuid;

use crate::error::ApiError;
use crate::http::credentials::Credentials;
use crate::http::encoding::{self, Encoding};
use crate::http::idempotency::Once;
use crate::http::params::{Query, ReadParams, check_region, stale_error};
use crate::http::passed::Peer;
use crate::http::rate::Rate;
use crate::http::when::PastView;
use crate::listen::pace::TooSlow;
use crate::listen::stalled::Stalled;
use crate::server::{Agent, Proposal, Reads, Writes, Written};

/// Largest request body, in bytes. Snapshot archives have a bound of their own.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Longest error text, in bytes. Texts quote requests, so their length is not ours to choose.
pub const ERROR_BYTES_MAX: usize = 4096;

/// One request.
pub struct Call<S> {
    /// The server behind the API.
    pub server: Arc<S>,
    /// Method.
    pub method: Method,
    /// Decoded path.
    pub path: String,
    /// Range of the id in `path`.
    pub id: Range<usize>,
    /// Query string, still encoded.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Token of the request, and the caller that it authenticates.
    pub credentials: Credentials,
    /// The unread body. The lock is never contended; it makes a call shareable between threads.
    pub body: Mutex<Body>,
    /// Idempotency key, with which a retried request runs once.
    pub once: Option<Once>,
    /// Idempotency key of a server that forwarded the request, for its own retries.
    pub(crate) forward_key: Option<Str>,
    /// The past state that the request asks for, if it asks for one.
    pub past: Option<Arc<PastView>>,
    /// Set when the connection is closed because its client does not read.
    pub(crate) stalled: Option<Stalled>,
    /// Address of the caller. `None`: the request was made inside this process.
    pub(crate) peer: Option<Peer>,
    /// Pending upgrade of the connection, for websockets; `None` when the connection cannot be upgraded.
    pub(crate) upgrade: Option<hyper::upgrade::OnUpgrade>,
    /// Label of the request in the rate counters. `None`: its route is not counted, or the request was counted
    /// before.
    pub(crate) rate: Option<Rate>,
    /// Error of a bad `stale`, with which the answer begins. Set when the parameters of a read are parsed.
    pub(crate) stale_error: Arc<OnceLock<String>>,
    /// Whether an event stream begins with the next entry, whatever its parameters say.
    pub(crate) only_new: bool,
    /// Encoding of the answer.
    pub(crate) encoding: Encoding,
}

/// Index of an answer, and the start of the next page.
#[derive(Debug, Clone, Default)]
pub struct Meta {
    /// `X-Nomad-Index`.
    pub index: u64,
    /// `X-Nomad-NextToken`.
    pub next_token: Option<String>,
}

impl Meta {
    /// An index without a next page.
    pub fn at(index: u64) -> Self {
        Self { index, next_token: None }
    }

    /// An index and the start of the next page.
    pub fn page(index: u64, next_token: Option<String>) -> Self {
        Self { index, next_token }
    }
}

impl<S> Call<S> {
    /// Id in the path.
    pub fn id(&self) -> &str {
        &self.path[self.id.clone()]
    }

    /// Query of the request.
    pub fn query(&self) -> Query<'_> {
        Query(&self.query)
    }

    /// Namespace of a request whose body may name one, too: that of the query, else the first of `in_body` that is not
    /// empty, else `default`.
    pub fn namespace_or(&self, in_body: &[&str]) -> Str {
        let of_query = self.query().text("namespace");
        [&*of_query]
            .into_iter()
            .chain(in_body.iter().copied())
            .find(|name| !name.is_empty())
            .map_or(Str::new_static(songline_model::DEFAULT_NAMESPACE), Str::new)
    }

    /// The past state that was asked for, if one was.
    pub fn past_view(&self) -> Option<Arc<State>> {
        self.past.as_ref().map(|past| past.state())
    }

    /// Reads the whole body.
    pub async fn bytes(&mut self) -> Result<Bytes, ApiError> {
        self.bytes_of(BODY_BYTES_MAX).await
    }

    /// Reads the whole body, at most `bytes_max` bytes.
    pub async fn bytes_of(&mut self, bytes_max: usize) -> Result<Bytes, ApiError> {
        read_body(self.take_body(), bytes_max).await
    }

    /// Takes the unread body. The call has an empty body afterwards.
    pub fn take_body(&mut self) -> Body {
        std::mem::replace(self.body.get_mut(), Body::empty())
    }

    /// Parses the body as JSON, as Go does. An empty body is refused.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, ApiError> {
        self.json_named(go_json::Names::default()).await
    }

    /// Same as [`Self::json`], with Go's names of the types in error texts.
    pub async fn json_named<T: DeserializeOwned>(&mut self, names: go_json::Names<'_>) -> Result<T, ApiError> {
        Ok(self.json_and_bytes(names).await?.0)
    }

    /// Same as [`Self::json_named`], with the bytes of the body, to pass them on.
    pub async fn json_and_bytes<T: DeserializeOwned>(
        &mut self,
        names: go_json::Names<'_>,
    ) -> Result<(T, Bytes), ApiError> {
        let body = self.bytes().await?;
        if body.is_empty() {
            return Err(ApiError::bad_request("Request body is empty"));
        }
        let value = go_json::from_slice_named(&body, names);
        value.map(|value| (value, body.clone())).map_err(|error| ApiError::bad_request(error.to_string()))
    }

    /// A JSON response with the header of a write.
    pub fn written<T: Serialize + ?Sized>(&self, index: u64, value: &T) -> Result<Response, ApiError> {
        let mut response = self.plain(value)?;
        set_index(&mut response, index);
        Ok(response)
    }

    /// A JSON response without further headers, or one in the encoding that the request asks for.
    pub fn plain<T: Serialize + ?Sized>(&self, value: &T) -> Result<Response, ApiError> {
        if self.encoding == Encoding::NodeRpc {
            return encoding::node_rpc(value);
        }
        let fail = |error: serde_json::Error| ApiError::internal(format!("encoding the answer: {error}"));
        let pretty = self.query().get("pretty").is_some_and(|value| value != "0");
        let body = if pretty {
            let mut out = Vec::with_capacity(256);
            let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, indent)).map_err(fail)?;
            out.push(b'\n');
            out
        } else {
            serde_json::to_vec(value).map_err(fail)?
        };
        let mut response = Response::new(Body::from(body));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }
}

impl<S: Agent> Call<S> {
    /// Parses the parameters of a read. Then refuses a caller without a capability that is checked late.
    pub fn read_params(&self) -> Result<ReadParams, ApiError> {
        let params = self.parse_read_params(&self.server.info().region)?;
        self.demand()?;
        Ok(params)
    }

    /// Parses the parameters of a read. Refuses another region than `region`.
    pub(super) fn parse_read_params(&self, region: &str) -> Result<ReadParams, ApiError> {
        if let Some(error) = stale_error(self.query()) {
            self.stale_error.get_or_init(|| error);
        }
        ReadParams::parse(self.query(), region)
    }

    /// Namespace of a write. Refuses another region, then a caller without a capability that is checked late.
    pub fn write_namespace(&self) -> Result<Str, ApiError> {
        self.write_namespace_or("")
    }

    /// Namespace of a write whose body names one, too: that of the query takes precedence. Refuses as
    /// [`Self::write_namespace`].
    pub fn write_namespace_or(&self, in_body: &str) -> Result<Str, ApiError> {
        check_region(self.query(), &self.server.info().region)?;
        self.demand()?;
        Ok(self.namespace_or(&[in_body]))
    }

    /// A new id. With an idempotency key, every retry makes the same ids and therefore gets the same answer. Secrets
    /// come from [`Agent::fresh_uuid`] instead, which cannot be reproduced.
    pub fn fresh_uuid(&self) -> Uuid {
        self.once.as_ref().map_or_else(|| self.server.fresh_uuid(), Once::fresh_uuid)
    }
}

impl<S: Reads> Call<S> {
    /// State of a read: the newest, or the past one that was asked for.
    pub fn view(&self) -> Arc<State> {
        self.past_view().unwrap_or_else(|| self.server.view())
    }

    /// Same as [`Self::view`]; unless the caller permits stale answers, the state holds everything that was
    /// acknowledged before.
    pub async fn fresh_view(&self, params: &ReadParams) -> Result<Arc<State>, ApiError> {
        if !params.stale {
            self.server.read_barrier().await?;
        }
        Ok(self.view())
    }

    /// State for looking up the result of the write at `index`: the newest state, or for a repeated write the state
    /// at `index`.
    pub async fn view_after(&self, index: u64) -> Arc<State> {
        if self.once.is_some()
            && self.past.is_some()
            && let Some(known) = self.server.past()
            && let Ok(then) = known.state_at(index).await
        {
            return then;
        }
        self.server.view()
    }

    /// Metadata in the body of an answer.
    pub fn query_meta(&self, index: u64) -> QueryMeta {
        let contact = self.server.contact();
        let last_contact = i64::try_from(contact.last_contact.as_nanos()).unwrap_or(i64::MAX);
        QueryMeta { index, last_contact, known_leader: contact.known_leader, ..QueryMeta::default() }
    }

    /// A JSON response with the headers of a read.
    pub fn read<T: Serialize + ?Sized>(&self, meta: &Meta, value: &T) -> Result<Response, ApiError> {
        let mut response = self.plain(value)?;
        self.read_headers(&mut response, meta.index);
        if let Some(value) = meta.next_token.as_ref().and_then(|token| HeaderValue::from_str(token).ok()) {
            response.headers_mut().insert("x-nomad-nexttoken", value);
        }
        Ok(response)
    }

    /// Adds the three headers of a read.
    pub fn read_headers(&self, response: &mut Response, index: u64) {
        read_headers(&*self.server, response, index);
    }
}

impl<S: Writes> Call<S> {
    /// Writes a command to the log. With a caller's idempotency key, a retried request runs once.
    pub async fn propose(&self, command: impl Into<Command>) -> Result<Written, ApiError> {
        // A handler that forgot to check its caller writes nothing.
        self.demand()?;
        let idempotency = self.once.as_ref().map(Once::next);
        // A route for all callers ignores an invalid token.
        let actor = self.authenticated().map_or(Actor::Anonymous, |caller| caller.actor());
        let proposal = Proposal { actor, cause: None, idempotency, command: command.into() };
        Ok(self.server.propose(proposal).await?)
    }

    /// Answers a write that has nothing to do. The answer is stored under the caller's idempotency key, if there is
    /// one, so that a retry gets the same answer whatever the state is by then. The answer must hold no secret.
    pub async fn nothing_to_write<T: Serialize>(&self, index: u64, value: &T) -> Result<Response, ApiError> {
        let response = self.written(index, value)?;
        if !self.keeps_answers() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let body = read_body(body, BODY_BYTES_MAX).await?;
        let answer = KeepAnswer { index: Some(index), body: Str::from(String::from_utf8_lossy(&body).into_owned()) };
        match self.propose(answer).await?.outcome {
            // Another copy of the request arrived at the same time and was applied first.
            Outcome::Answered(first) => Ok(kept(&first)),
            _ => Ok(Response::from_parts(head, Body::from(body))),
        }
    }

    /// Whether the answer to this request is stored for retries.
    fn keeps_answers(&self) -> bool {
        self.once.as_ref().is_some_and(Once::is_of_caller)
    }

    /// Answers a write that has no body and whose commands do not carry the caller's idempotency key. The key is
    /// stored now: a later retry gets the same answer and does nothing.
    pub async fn done(&self) -> Result<Response, ApiError> {
        if self.keeps_answers() {
            self.propose(KeepAnswer::default()).await?;
        }
        Ok(empty())
    }
}

/// Adds the three headers of a read.
pub fn read_headers<S: Reads>(server: &S, response: &mut Response, index: u64) {
    let contact = server.contact();
    set_index(response, index);
    let headers = response.headers_mut();
    headers
        .insert("x-nomad-knownleader", HeaderValue::from_static(if contact.known_leader { "true" } else { "false" }));
    let millis = u64::try_from(contact.last_contact.as_millis()).unwrap_or(u64::MAX);
    headers.insert("x-nomad-lastcontact", HeaderValue::from(millis));
}

/// Adds the index header.
pub fn set_index(response: &mut Response, index: u64) {
    response.headers_mut().insert("x-nomad-index", HeaderValue::from(index));
}

/// Converts a stored answer to a response.
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

/// A response without a body.
pub fn empty() -> Response {
    Response::new(Body::empty())
}

/// A response without a body, with the header of a write.
pub fn empty_written(index: u64) -> Response {
    let mut response = empty();
    set_index(&mut response, index);
    response
}

/// The text of an error, cut to [`ERROR_BYTES_MAX`].
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > ERROR_BYTES_MAX {
        let more = text.len();
        text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX - 32));
        text.push_str(&format!(".. ({} bytes more)", more - text.len()));
    }
    text
}

/// The response to an error: the plain text, cut to [`ERROR_BYTES_MAX`].
pub fn error_response<S: Reads>(server: &S, error: ApiError) -> Response {
    let mut response = Response::new(Body::from(shortened(error.text.into_owned())));
    *response.status_mut() = error.code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if let Some(index) = error.index {
        read_headers(server, &mut response, index);
    }
    response
}

/// Reads a whole body of at most `bytes_max` bytes.
pub async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let limited = http_body_util::Limited::new(body, bytes_max);
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "http: request body too large"))
        }
        Err(error) if error.is::<TooSlow>() => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, error.to_string())),
        Err(error) => Err(ApiError::bad_request(error.to_string())),
    }
}
