//! Files and logs of allocations, read through their node's agent, and requests about a whole node.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::Stream;
use serde::Serialize;
use songline_model::{AllocId, NodeId, Str};
use songline_rpc::{NodeAgent, Origin, ReadFile, ReadLogs, RpcError, StreamFrame};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::http::alloc::agent_of;
use crate::http::call::{Call, empty};
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::http::params::{parse_bool, parse_int, quote};
use crate::server::{Nodes, Reads};
use songline_lang::acl::{Access, NamespaceCapability};

/// Interval of the heartbeats in a stream of frames.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Interval of the checks whether a stream's caller still has the right to read it.
const RECHECK: Duration = Duration::from_secs(1);

pub(super) fn routes<S: Reads + Nodes>(mux: &mut Mux<S>) {
    let (root, read_fs) = ("/v1/client/fs/", Capability::Object(&[NamespaceCapability::ReadFs]));
    mux.add(Methods::Any, root, "ls/{}", read_fs, |call| Box::pin(list(call)));
    mux.add(Methods::Any, root, "stat/{}", read_fs, |call| Box::pin(stat(call)));
    mux.add(Methods::Any, root, "cat/{}", read_fs, |call| Box::pin(cat(call)));
    mux.add(Methods::Any, root, "readat/{}", read_fs, |call| Box::pin(read_at(call)));
    mux.add(Methods::Any, root, "stream/{}", read_fs, |call| Box::pin(stream(call)));
    mux.add(
        Methods::Any,
        root,
        "logs/{}",
        Capability::ObjectStream(&[NamespaceCapability::ReadLogs, NamespaceCapability::ReadFs]),
        |call| Box::pin(logs(call)),
    );
    mux.add(Methods::Any, root, "{}", Capability::Anyone, |_| {
        Box::pin(std::future::ready(Err(ApiError::not_found("Invalid method"))))
    });
    mux.add(Methods::Any, "/v1/client/stats", "", Capability::Node(Access::Read), |call| Box::pin(host_stats(call)));
    mux.add(Methods::Any, "/v1/client/gc", "", Capability::Node(Access::Write), |call| Box::pin(collect(call)));
}

/// The allocation of the path and its agent, for a caller with `read-fs` or a capability of `or`.
fn agent<S: Reads + Nodes>(call: &Call<S>, or: &[NamespaceCapability]) -> Result<(AllocId, Arc<S::Node>), ApiError> {
    if call.id().is_empty() {
        return Err(ApiError::bad_request("must provide a valid alloc id"));
    }
    let enough = [&[NamespaceCapability::ReadFs], or].concat();
    agent_of(call, call.id(), &enough)
}

async fn list<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let (id, agent) = agent(&call, &[])?;
    let path = call.query().text("path").into_owned();
    let path = if path.is_empty() { "/" } else { &path };
    call.plain(&agent.fs_list(id, path).await?)
}

async fn stat<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let (path, (id, agent)) = (required_path(&call)?, agent(&call, &[])?);
    call.plain(&agent.fs_stat(id, &path).await?)
}

fn required_path<S>(call: &Call<S>) -> Result<Str, ApiError> {
    match &*call.query().text("path") {
        "" => Err(ApiError::bad_request("must provide a file name")),
        path => Ok(Str::new(path)),
    }
}

async fn cat<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    raw_file(&call, 0, 0).await
}

async fn read_at<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let number = |name: &str| {
        let text = call.query().text(name).into_owned();
        parse_int(&text).map_err(|error| ApiError::bad_request(format!("error parsing {name}: {error}")))
    };
    let limit = if call.query().text("limit").is_empty() { Ok(0) } else { number("limit") };
    let offset = number("offset")?;
    raw_file(&call, offset, u64::try_from(limit?).unwrap_or(0)).await
}

/// Answers a failed look-up of an allocation with status 200, as clients of these two routes expect. Errors of the
/// file and missing rights have their own status.
fn shown_as_content(error: ApiError) -> Response {
    let mut response = Response::new(Body::from(error.text.into_owned()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

async fn raw_file<S: Reads + Nodes>(call: &Call<S>, offset: i64, limit: u64) -> Result<Response, ApiError> {
    let path = required_path(call)?;
    let (id, agent) = match agent(call, &[]) {
        Ok(found) => found,
        Err(error) if error.code == StatusCode::FORBIDDEN => return Err(error),
        Err(error) => return Ok(shown_as_content(error)),
    };
    let info = match agent.fs_stat(id, &path).await {
        Ok(info) => info,
        Err(RpcError::Coded { code: 404, text }) if text.starts_with("state for allocation") => {
            return Ok(shown_as_content(ApiError::not_found(text)));
        }
        Err(error) => return Err(error.into()),
    };
    if info.is_dir {
        return Err(ApiError::bad_request(format!("file {} is a directory", quote(&path))));
    }
    let mut frames =
        agent.fs_read(ReadFile { alloc: id, path, offset, origin: Origin::Start, limit, follow: false }).await?;
    // The first piece tells whether the file is empty, and its content type.
    let first = match frames.recv().await {
        Some(frame) => frame?.data,
        None => Bytes::new(),
    };
    // The content type of a file says nothing about a part from its middle.
    let media = media_type(if offset == 0 { &info.content_type } else { "" }, &first);
    let is_empty = first.is_empty();
    let body = async_stream::stream! {
        if !first.is_empty() {
            yield Ok::<_, std::io::Error>(first);
        }
        while let Some(frame) = frames.recv().await {
            match frame {
                Ok(frame) => yield Ok(frame.data),
                Err(error) => {
                    yield Ok(Bytes::from(error.to_string()));
                    break;
                }
            }
        }
    };
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    if !is_empty {
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_str(&media).map_err(|error| ApiError::internal(error.to_string()))?,
        );
        let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::X_XSS_PROTECTION, HeaderValue::from_static("1; mode=block"));
    }
    Ok(response)
}

/// Content type for a browser: that of the file if known, but never one that makes the browser run scripts.
fn media_type(kind: &str, head: &[u8]) -> String {
    if ["text/html", "text/xhtml"].iter().any(|page| kind.starts_with(page)) {
        return "text/plain".to_owned();
    }
    if !kind.is_empty() {
        return kind.to_owned();
    }
    let binary = head.iter().take(512).any(|byte| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f));
    if binary { "application/octet-stream".to_owned() } else { "text/plain; charset=utf-8".to_owned() }
}

async fn stream<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let path = required_path(&call)?;
    let offset = offset(&call).map_err(|error| ApiError::internal(error.text))?;
    let origin = origin(&call)?;
    let follow = boolean(&call, "follow").map_err(ApiError::internal)?.unwrap_or(true);
    let (id, agent) = agent(&call, &[])?;
    let info = agent.fs_stat(id, &path).await.map_err(as_bad_request)?;
    if info.is_dir {
        return Err(ApiError::bad_request(format!("file {} is a directory", quote(&path))));
    }
    let frames = agent.fs_read(ReadFile { alloc: id, path, offset, origin, limit: 0, follow }).await?;
    let shutdown = call.server.shutdown().clone();
    Ok(frames_response(frames, "text/plain; charset=utf-8", false, shutdown, still_may(call, id, &[])))
}

/// Makes a missing file the caller's mistake (400), as this route does.
fn as_bad_request(error: RpcError) -> ApiError {
    match error {
        RpcError::Coded { code: 404, text } if !text.starts_with("Unknown allocation") => ApiError::bad_request(text),
        RpcError::Remote(text) if text.contains("escapes the alloc directory") => ApiError::bad_request(text),
        other => other.into(),
    }
}

async fn logs<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let query = call.query();
    if call.id().is_empty() {
        return Err(ApiError::bad_request("must provide a valid alloc id"));
    }
    let task = Str::new(query.text("task"));
    if task.is_empty() {
        return Err(ApiError::bad_request("must provide task name"));
    }
    let flag = |name: &str| boolean(&call, name).map_err(ApiError::bad_request).map(Option::unwrap_or_default);
    let (follow, plain) = (flag("follow")?, flag("plain")?);
    let kind = Str::new(query.text("type"));
    if kind != "stdout" && kind != "stderr" {
        return Err(ApiError::bad_request("must provide log type (stdout/stderr)"));
    }
    let (offset, origin) = (offset(&call)?, origin(&call)?);
    // The reference reports missing rights to logs from within the stream, so the status is 500 instead of 403.
    let (id, agent) = agent(&call, &[NamespaceCapability::ReadLogs]).map_err(|error| match error.code {
        StatusCode::FORBIDDEN => ApiError::internal(error.text),
        _ => error,
    })?;
    let view = call.server.view();
    let alloc = view.alloc(id).ok_or_else(|| ApiError::not_found(format!("Unknown allocation \"{id}\"")))?;
    let known = alloc.group().is_some_and(|group| group.tasks.iter().flatten().any(|known| known.name == task));
    let media = if plain { "text/plain" } else { "application/json" };
    if !known {
        // The stream has begun, so its content type stays.
        return Ok(refused_in_stream(StatusCode::BAD_REQUEST, format!("unknown task name {}", quote(&task)), media));
    }
    let frames = agent.fs_logs(ReadLogs { alloc: id, task, kind, offset, origin, follow }).await?;
    let shutdown = call.server.shutdown().clone();
    Ok(frames_response(frames, media, plain, shutdown, still_may(call, id, &[NamespaceCapability::ReadLogs])))
}

/// Returns the check whether the caller still has `read-fs`, or a capability of `or`, in the allocation's namespace:
/// a stream outlives tokens and policies.
fn still_may<S: Reads>(call: Call<S>, id: AllocId, or: &[NamespaceCapability]) -> impl Fn() -> bool + Send + 'static {
    // The allocation may be dropped while the stream runs, but its namespace does not change.
    let namespace = call.server.view().alloc(id).map(|alloc| alloc.namespace.clone()).unwrap_or_default();
    let enough = [&[NamespaceCapability::ReadFs], or].concat();
    move || call.recheck().and_then(|()| call.require_in(&namespace, &enough)).is_ok()
}

/// An error with the content type of the stream that it ends.
fn refused_in_stream(code: StatusCode, text: String, media: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A boolean parameter; `None` when it is absent. The error is in the words of these routes.
fn boolean<S>(call: &Call<S>, name: &str) -> Result<Option<bool>, String> {
    let text = call.query().text(name);
    if text.is_empty() {
        return Ok(None);
    }
    let quoted = quote(&text);
    parse_bool(&text).map(Some).ok_or_else(|| {
        format!("failed to parse {name} field to boolean: strconv.ParseBool: parsing {quoted}: invalid syntax")
    })
}

fn offset<S>(call: &Call<S>) -> Result<i64, ApiError> {
    match &*call.query().text("offset") {
        "" => Ok(0),
        text => parse_int(text).map_err(|error| ApiError::bad_request(format!("error parsing offset: {error}"))),
    }
}

fn origin<S>(call: &Call<S>) -> Result<Origin, ApiError> {
    match &*call.query().text("origin") {
        "" | "start" => Ok(Origin::Start),
        "end" => Ok(Origin::End),
        _ => Err(ApiError::bad_request("origin must be start or end")),
    }
}

/// A piece of a file, or a change of it, in a framed stream.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct FrameView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    offset: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    file_event: &'a str,
}

/// Whether a number is left out of an answer.
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn encode(frame: &StreamFrame) -> Bytes {
    let data = (!frame.data.is_empty()).then(|| STANDARD.encode(&frame.data));
    // On the wire, the offset lies after the data of the frame.
    let offset = frame.offset + i64::try_from(frame.data.len()).unwrap_or(i64::MAX);
    let view = FrameView { data, file: &frame.file, offset, file_event: &frame.file_event };
    Bytes::from(serde_json::to_vec(&view).expect("texts and numbers are JSON"))
}

type Frames = mpsc::Receiver<Result<StreamFrame, RpcError>>;

fn frames_response(
    frames: Frames,
    media: &'static str,
    plain: bool,
    shutdown: CancellationToken,
    still_may: impl Fn() -> bool + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::from_stream(frame_stream(frames, plain, shutdown, still_may)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

fn frame_stream(
    mut frames: Frames,
    plain: bool,
    shutdown: CancellationToken,
    still_may: impl Fn() -> bool + Send + 'static,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    async_stream::stream! {
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked = tokio::time::interval_at(Instant::now() + RECHECK, RECHECK);
        asked.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                // The check is polled before the frames: a busy file always has another frame ready.
                _ = asked.tick() => if !still_may() {
                    break;
                },
                frame = frames.recv() => match frame {
                    None => break,
                    Some(Ok(frame)) if plain => {
                        if !frame.data.is_empty() {
                            yield Ok(frame.data);
                        }
                    }
                    Some(Ok(frame)) => yield Ok(encode(&frame)),
                    Some(Err(error)) => {
                        yield Ok(Bytes::from(error.to_string()));
                        break;
                    }
                },
                _ = heartbeat.tick(), if !plain => yield Ok(Bytes::from_static(b"{}")),
            }
        }
    }
}

/// The agent of the node in `node_id`, or of the node in this process.
fn node_agent<S: Reads + Nodes>(call: &Call<S>, unknown: fn(String) -> ApiError) -> Result<Arc<S::Node>, ApiError> {
    agent_of_node(call, &call.query().text("node_id"), unknown)
}

/// The agent of the node with this id, or, for an empty id, of the node in this process.
pub(super) fn agent_of_node<S: Reads + Nodes>(
    call: &Call<S>,
    text: &str,
    unknown: fn(String) -> ApiError,
) -> Result<Arc<S::Node>, ApiError> {
    let id = match text {
        "" => {
            call.server.local_node().ok_or_else(|| ApiError::bad_request("No local Node and node_id not provided"))?
        }
        text => {
            let id = ids::exact(text)
                .map_err(|error| ApiError::internal(format!("node lookup failed: index error: {error}")))?;
            id.map(NodeId::from).unwrap_or_default()
        }
    };
    if call.server.view().node(id).is_none() {
        return Err(unknown(format!("Unknown node {text}")));
    }
    call.server.node_agent(id, call.secret()).ok_or_else(|| ApiError::not_found("No path to node"))
}

async fn host_stats<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let agent = node_agent(&call, ApiError::not_found)?;
    let mut response = Response::new(Body::from(agent.host_stats().await?));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn collect<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let agent = node_agent(&call, ApiError::internal)?;
    agent.gc_all().await?;
    Ok(empty())
}
