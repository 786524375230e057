//! Standard parameters of a route (`region`, `wait`, `index`, ..), which are checked before its handler runs.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use tokio_stream::StreamExt as _;

use crate::error::ApiError;
use crate::http::call::{Call, shortened};
use crate::http::mux::Methods;
use crate::http::params::check_region;
use crate::server::Agent;

/// Standard parameters that a route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdParams {
    /// Those of a read.
    Read,
    /// Those of a read. The answer is about all regions, so `region` may name any.
    ReadOfAllRegions,
    /// Those of a write, of which only the region can be wrong.
    Write,
    /// Those that the handler reads in its own way, or none.
    Own,
}

/// Prefixes of routes whose handlers parse parameters in their own way, or not at all.
const OWN: [&str; 14] = [
    "/debug/",
    "/ui/",
    "/v1/agent/keyring",
    "/v1/agent/schedulers",
    "/v1/agent/self",
    "/v1/agent/servers",
    "/v1/event/stream",
    "/v1/metrics",
    "/v1/openapi.json",
    "/v1/operator/license",
    "/v1/recommendation",
    "/v1/sentinel/",
    "/v1/var/",
    "/v1/vars",
];

/// Prefixes of writes that ignore the region, or whose body decides about it, too.
const OWN_WRITES: [&str; 2] = ["/v1/acl/", "/v1/agent/"];

/// Writes of jobs whose body decides about the region, too.
const JOBS: [&str; 5] = ["/v1/job/{}", "/v1/job/{}/plan", "/v1/jobs", "/v1/jobs/parse", "/v1/validate/job"];

/// Lists that answer without a server when the query has no `type=csi`, whatever else it has. Their handlers parse
/// the parameters of the other requests.
const TYPED_LISTS: [&str; 2] = ["/v1/plugins", "/v1/volumes"];

/// Prefixes of routes that take the parameters of a read with every method.
const READ_BY_ANY_METHOD: [&str; 6] = [
    "/v1/agent/monitor",
    "/v1/agent/pprof/",
    "/v1/client/",
    "/v1/operator/raft/configuration",
    "/v1/search",
    "/v1/system/",
];

const OF_ALL_REGIONS: [&str; 2] = ["/v1/agent/members", "/v1/regions"];

impl StdParams {
    /// Parameters of the route with this path and these methods.
    pub(super) fn of(path: &str, methods: Methods) -> Self {
        let is_below = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.starts_with(prefix));
        if is_below(&OWN) {
            return StdParams::Own;
        }
        match methods {
            Methods::Get if TYPED_LISTS.contains(&path) => StdParams::Own,
            Methods::Get if is_below(&OF_ALL_REGIONS) => StdParams::ReadOfAllRegions,
            Methods::Get => StdParams::Read,
            _ if is_below(&READ_BY_ANY_METHOD) => StdParams::Read,
            Methods::Any => StdParams::Own,
            Methods::Write | Methods::Put | Methods::Post | Methods::Delete => {
                let is_own = is_below(&OWN_WRITES) || JOBS.contains(&path);
                if is_own { StdParams::Own } else { StdParams::Write }
            }
        }
    }

    /// Refuses invalid parameters, and another region.
    pub(super) fn check<S: Agent>(self, call: &Call<S>) -> Result<(), ApiError> {
        match self {
            StdParams::Read => call.read_params().map(|_| ()),
            StdParams::ReadOfAllRegions => {
                let region = call.query().text("region");
                let own = &call.server.info().region;
                call.parse_read_params(if region.is_empty() { own } else { &region }).map(|_| ())
            }
            StdParams::Write => check_region(call.query(), &call.server.info().region),
            StdParams::Own => Ok(()),
        }
    }
}

/// An answer behind the error of a bad `stale`, as the reference writes it: in one body of status 400.
pub(super) fn after(error: &str, answer: Result<Response, ApiError>) -> Result<Response, ApiError> {
    let response = match answer {
        // Another leader may be asked.
        Err(failed) if failed.leaderless.is_some() => return Err(failed),
        Err(failed) => return Err(ApiError::bad_request(format!("{error}{}", failed.text))),
        // A websocket has no body.
        Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => return Ok(response),
        Ok(response) => response,
    };
    let error = tokio_stream::once(Ok(Bytes::from(shortened(error.to_owned()))));
    let body = Body::from_stream(error.chain(response.into_body().into_data_stream()));
    let mut both = Response::new(body);
    *both.status_mut() = StatusCode::BAD_REQUEST;
    both.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(both)
}
