//! Log stream of the agent: JSON frames, or plain lines.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use songline_lang::acl::Access;
use songline_model::Str;
use songline_rpc::{AskMonitor, NodeAgent, RpcError, StreamFrame};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::caller::{AuthError, denied};
use crate::error::ApiError;
use crate::http::call::{Call, empty};
use crate::http::capability::Capability;
use crate::http::host::{Asked, agent_of, asked_for};
use crate::http::mux::{Methods, Mux};
use crate::http::params::{parse_bool, quote};
use crate::monitor::{Heard, Lines, Monitor, level_named};
use crate::server::{Cluster, Nodes, Reads, Status};

/// Interval of the heartbeats in a stream of frames.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time for which lines are collected into one frame.
const WINDOW: Duration = Duration::from_millis(200);
/// Number of bytes at which a frame is sent at once.
const FRAME_BYTES: usize = 1024;

pub(super) fn routes<S: Reads + Cluster + Nodes + Status>(mux: &mut Mux<S>) {
    // The handler checks `agent:read` itself: errors in the request are reported before missing rights.
    mux.add(Methods::Any, "/v1/agent/monitor", "", Capability::AgentLate(Access::Read), |call| Box::pin(monitor(call)));
}

async fn monitor<S: Reads + Cluster + Nodes + Status>(call: Call<S>) -> Result<Response, ApiError> {
    let query = call.query();
    let level = match &*query.text("log_level") {
        "" => tracing::Level::INFO,
        name => level_named(name).ok_or_else(|| ApiError::bad_request(format!("Unknown log level: {name}")))?,
    };
    let option = |name: &str, shown: &str| match &*query.text(name) {
        "" => Ok(false),
        text => parse_bool(text).ok_or_else(|| {
            let quoted = quote(text);
            ApiError::bad_request(format!(
                "Unknown option for {shown}: strconv.ParseBool: parsing {quoted}: invalid syntax"
            ))
        }),
    };
    let json = option("log_json", "log json")?;
    let with_place = option("log_include_location", "log_include_location")?;
    let plain = option("plain", "plain")?;
    let of_node = !query.text("node_id").is_empty();
    let told = |error: ApiError| match error.code {
        StatusCode::BAD_REQUEST => error,
        // For another node, the error has the status that the node would have answered with, in its text.
        code if of_node => ApiError::internal(format!("RPC Error:: {},{}", code.as_u16(), error.text)),
        _ => ApiError::bad_request(error.text),
    };
    let asked = asked_for(&call).map_err(told)?;
    match call.authenticated() {
        Ok(caller) if caller.acl().agent(Access::Read) => {}
        // The reference finds an unknown secret only after the stream has begun, so the answer is an empty success.
        Err(AuthError::Unknown) => return Ok(empty()),
        Ok(_) | Err(_) => return Err(denied()),
    }
    if let Asked::Node(node) = asked {
        let level = query.text("log_level");
        let ask = AskMonitor { level: Str::new(level), json, location: with_place };
        let frames =
            agent_of(&call, node).map_err(told)?.agent_monitor(ask).await.map_err(|error| told(error.into()))?;
        return Ok(relayed(frames, plain));
    }
    let (lines, show) = (Monitor::of_this_process().listen(level), shown(json, with_place));
    let shutdown = call.server.shutdown().clone();
    let (body, media) = if plain {
        (Body::from_stream(bare(lines, show, shutdown)), "text/plain")
    } else {
        (
            Body::from_stream(framed(lines, show, shutdown).map(|frame| Ok::<_, std::io::Error>(in_json(&frame)))),
            "application/json",
        )
    };
    Ok(streamed(body, media))
}

fn streamed(body: Body, media: &'static str) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Stream of another node's frames.
fn relayed(frames: mpsc::Receiver<Result<StreamFrame, RpcError>>, plain: bool) -> Response {
    let frames = ReceiverStream::new(frames).map(move |frame| match frame {
        Ok(frame) if plain => Ok(frame.data),
        Ok(frame) => Ok(in_json(&frame)),
        Err(error) => Err(std::io::Error::other(error)),
    });
    streamed(Body::from_stream(frames), if plain { "text/plain" } else { "application/json" })
}

/// Returns the formatter of lines.
pub(crate) fn shown(json: bool, with_place: bool) -> impl Fn(Heard) -> String + Send + 'static {
    move |heard| match heard {
        Heard::Line(line) if json => line.json(with_place),
        Heard::Line(line) => line.text(with_place),
        Heard::Missed(count) => format!("[WARN] Monitor dropped {count} logs during monitor request\n"),
    }
}

type Pieces = Result<Bytes, std::io::Error>;

fn bare(
    mut lines: Lines,
    show: impl Fn(Heard) -> String + Send + 'static,
    shutdown: CancellationToken,
) -> impl futures_util::Stream<Item = Pieces> + Send {
    async_stream::stream! {
        loop {
            let heard = tokio::select! {
                () = shutdown.cancelled() => break,
                heard = lines.next() => heard,
            };
            let Some(heard) = heard else { break };
            yield Ok(Bytes::from(show(heard)));
        }
    }
}

/// Collects lines into frames; an empty frame is a heartbeat.
pub(crate) fn framed(
    mut lines: Lines,
    show: impl Fn(Heard) -> String + Send + 'static,
    shutdown: CancellationToken,
) -> impl futures_util::Stream<Item = StreamFrame> + Send {
    async_stream::stream! {
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut gathered = String::new();
        let mut due = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep_until(due), if !gathered.is_empty() => yield frame(&mut gathered),
                heard = lines.next() => {
                    let Some(heard) = heard else { break };
                    if gathered.is_empty() {
                        due = Instant::now() + WINDOW;
                    }
                    gathered.push_str(&show(heard));
                    if gathered.len() >= FRAME_BYTES {
                        yield frame(&mut gathered);
                    }
                },
                _ = heartbeat.tick() => yield StreamFrame::default(),
            }
        }
    }
}

/// Takes the collected lines as one frame.
fn frame(gathered: &mut String) -> StreamFrame {
    StreamFrame { data: std::mem::take(gathered).into(), file_event: Str::new_static("log"), ..StreamFrame::default() }
}

fn in_json(frame: &StreamFrame) -> Bytes {
    if frame.data.is_empty() {
        return Bytes::from_static(b"{}");
    }
    Bytes::from(json!({"Data": STANDARD.encode(&frame.data), "FileEvent": frame.file_event}).to_string())
}
