//! Profiles of the agent's process: its command line and its threads. The process has no Go runtime, so other
//! profiles do not exist.

use std::fmt::Write as _;
use std::fs;

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
use crate::server::Server;

/// Profiles of the reference that are not offered: they are about Go's runtime, or would need a profiler in this
/// process.
const NOT_OFFERED: [&str; 6] = ["profile", "trace", "heap", "allocs", "block", "mutex"];

/// Headers of every offered profile.
pub(crate) const HEADERS: [(&str, &str); 2] =
    [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")];

pub(super) fn routes<S: Server>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/agent/pprof/", "{}", Capability::Servers(Access::Write), |call| Box::pin(asked(call)));
}

/// Answers with a profile of the requested agent.
async fn asked<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    // With ACLs enabled, the token decides.
    if !call.server.info().acl.enabled && !call.server.info().enable_debug {
        return Err(denied());
    }
    match asked_for(&call)? {
        Asked::Own(_) => Ok(answer(profile(call.id()).await?, HEADERS)),
        Asked::Node(node) => {
            let query = call.query();
            let number = |name: &str| query.text(name).parse().unwrap_or_default();
            let ask = AskProfile {
                name: call.id().into(),
                seconds: if query.text("seconds").is_empty() { 1 } else { number("seconds") },
                debug: number("debug"),
                gc: number("gc"),
            };
            let found = agent_of(&call, node)?.agent_profile(ask).await?;
            Ok(answer(found.payload, found.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
        }
    }
}

/// A profile of this process by name.
pub(crate) async fn profile(name: &str) -> Result<String, ApiError> {
    match name {
        "cmdline" => {
            let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
            Ok(args.join("\0"))
        }
        "goroutine" | "threadcreate" => {
            let shown = tokio::task::spawn_blocking(threads).await;
            shown.map_err(|error| ApiError::internal(error.to_string()))
        }
        name if NOT_OFFERED.contains(&name) => {
            let text = format!("this agent has no profile {name:?}: it has cmdline, goroutine and threadcreate");
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

/// Threads of this process: name, state, and processor time in ticks of 10 milliseconds.
fn threads() -> String {
    let mut rows: Vec<(u64, String, String, u64)> = Vec::new();
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
        let (id, name) = head.split_once(" (").unwrap_or_default();
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        let state = fields.first().copied().unwrap_or_default().to_owned();
        rows.push((id.parse().unwrap_or(0), name.to_owned(), state, number(11) + number(12)));
    }
    rows.sort();
    let mut shown = format!("threads: {}\n", rows.len());
    for (id, name, state, ticks) in rows {
        let _ = writeln!(shown, "{id:>8} {state} {ticks:>8} {name}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::threads;

    #[test]
    fn thread_dump_lists_at_least_one_thread() {
        let shown = threads();
        assert!(shown.starts_with("threads: ") && shown.lines().count() > 1, "{shown}");
    }
}
