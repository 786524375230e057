//! Profiles of the agent's process for `go tool pprof` or as text: its command line, its threads, their use of the
//! processor, its memory; and a timeline of the threads. The process has no Go runtime, so other profiles do not exist,
//! and a stack is one name.

mod memory;
mod proto;
mod threads;
mod timeline;

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use songline_lang::acl::Access;
use songline_rpc::{AskProfile, NodeAgent};

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::host::{Asked, agent_of, asked_for};
use crate::http::mux::{Methods, Mux};
use crate::server::{Agent, Cluster, Nodes, Reads, Status};

/// Profiles of the reference that are not offered: they are about Go's runtime, or would need an allocator that keeps
/// account.
const NOT_OFFERED: [&str; 3] = ["allocs", "block", "mutex"];
/// Longest time for which the use of the processor is measured, in seconds.
const SECONDS_MAX: u64 = 300;

/// A profile as it is sent.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) payload: Vec<u8>,
}

impl Content {
    fn text(text: String) -> Self {
        let headers = vec![
            ("content-type", "text/plain; charset=utf-8".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
        ];
        Self { headers, payload: text.into_bytes() }
    }

    /// A file for `go tool pprof`.
    fn file(name: &str, payload: Vec<u8>) -> Self {
        let disposition = format!("attachment; filename={name:?}");
        let headers = vec![
            ("content-type", "application/octet-stream".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
            ("content-disposition", disposition),
        ];
        Self { headers, payload }
    }
}

pub(super) fn routes<S: Reads + Cluster + Nodes + Status>(mux: &mut Mux<S>) {
    const WRITE: Capability = Capability::Servers(Access::Write);
    mux.add(Methods::Any, "/v1/agent/pprof/", "{}", WRITE, |call| Box::pin(asked(call)));
    mux.add(Methods::Get, "/debug/pprof/", "{}", WRITE, |call| Box::pin(own(call)));
}

/// Refuses profiles of an agent without ACLs that does not enable them. With ACLs the token decides.
fn allowed<S: Agent>(call: &Call<S>) -> Result<(), ApiError> {
    let info = call.server.info();
    if info.acl.enabled || info.enable_debug { Ok(()) } else { Err(denied()) }
}

/// Answers with a profile of this agent, at the path of the reference's own debugging routes.
async fn own<S: Agent>(call: Call<S>) -> Result<Response, ApiError> {
    allowed(&call)?;
    let content = profile(&parameters(&call)).await?;
    Ok(answer(content.payload, content.headers.iter().map(|(name, value)| (*name, value.as_str()))))
}

/// Parameters of a profile request. A number that does not parse has its default.
fn parameters<S>(call: &Call<S>) -> AskProfile {
    let query = call.query();
    let number = |name: &str| query.text(name).parse().ok();
    AskProfile {
        name: call.id().into(),
        seconds: number("seconds").unwrap_or(1),
        debug: number("debug").unwrap_or_default(),
        gc: number("gc").unwrap_or_default(),
    }
}

/// Answers with a profile of the requested agent.
async fn asked<S: Reads + Cluster + Nodes + Status>(call: Call<S>) -> Result<Response, ApiError> {
    allowed(&call)?;
    if call.id().is_empty() {
        return Err(ApiError::not_found("Invalid method"));
    }
    let Asked::Node(node) = asked_for(&call)? else { return own(call).await };
    let found = agent_of(&call, node)?.agent_profile(parameters(&call)).await?;
    Ok(answer(found.payload, found.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
}

/// A profile of this process by name. `profile` and `trace` take as many seconds as they
/// are asked for.
pub(crate) async fn profile(ask: &AskProfile) -> Result<Content, ApiError> {
    let name = ask.name.as_str();
    let span = Duration::from_secs(u64::try_from(ask.seconds).unwrap_or(1).clamp(1, SECONDS_MAX));
    match name {
        "cmdline" => {
            let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
            Ok(Content::text(args.join("\0")))
        }
        "goroutine" | "threadcreate" => {
            let all = threads::now().await?;
            Ok(if ask.debug > 0 {
                Content::text(threads::shown(&all))
            } else {
                Content::file(name, threads::counted(&all))
            })
        }
        "heap" => {
            let all = memory::now().await?;
            Ok(if ask.debug > 0 {
                Content::text(memory::shown(&all))
            } else {
                Content::file(name, memory::profile(&all))
            })
        }
        "trace" => Ok(Content::file(name, timeline::record(span).await?)),
        "profile" => {
            let before = threads::now().await?;
            tokio::time::sleep(span).await;
            Ok(Content::file(name, threads::used(&before, &threads::now().await?, span)))
        }
        name if NOT_OFFERED.contains(&name) => {
            let text = format!(
                "this agent has no profile {name:?}: it has cmdline, goroutine, heap, profile, threadcreate and trace"
            );
            Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, text))
        }
        name => Err(ApiError::not_found(format!("Pprof profile not found profile: {name}"))),
    }
}

fn answer<'h>(content: impl Into<Body>, headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Response {
    let mut response = Response::new(content.into());
    for (name, value) in headers {
        // Malformed headers of a node are left out.
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
