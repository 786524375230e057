//! Server that answers a route, and a single request to it: the leader, or the server that received the request.
//! `forward` does the forwarding.

use axum::http::Method;

use crate::error::ApiError;
use crate::http::params::{Query, parse_duration};
use crate::http::when::{self, When};
use crate::server::Reads;

/// Server that answers a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The leader: it writes, and knows the newest state. Reads may ask for weaker consistency.
    Leader,
    /// The server that received the request: the route is about its agent, about a node that it reaches, or the same
    /// on all servers.
    Asked,
}

/// Prefixes of the routes that the receiving server answers. All others default to the leader, so that a new route is
/// correct before it is fast.
const ASKED: [&str; 14] = [
    "/debug/",
    "/ui/",
    "/v1/agent/",
    "/v1/client/",
    "/v1/event/stream",
    "/v1/jobs/parse",
    "/v1/jwks.json",
    "/v1/metrics",
    "/v1/openapi.json",
    "/v1/operator/license",
    "/v1/recommendation",
    "/v1/regions",
    "/v1/sentinel/",
    "/v1/status/",
];

/// The only route below an excepted prefix that only the leader can answer: it changes the membership.
const OF_LEADER: &str = "/v1/agent/force-leave";

impl AnsweredBy {
    /// Server that answers a route with this root.
    pub(super) fn of(root: &str) -> Self {
        if root == OF_LEADER {
            return AnsweredBy::Leader;
        }
        if ASKED.iter().any(|beginning| root.starts_with(beginning)) { AnsweredBy::Asked } else { AnsweredBy::Leader }
    }

    /// Server that answers one request to such a route: a read may permit this server's state.
    pub(super) fn this_time<S: Reads>(
        self,
        server: &S,
        method: &Method,
        path: &str,
        query: Query<'_>,
    ) -> Result<Self, ApiError> {
        if self == AnsweredBy::Asked || query.0.is_empty() || !is_read(method, path) {
            return Ok(self);
        }
        if query.flag("stale") {
            return Ok(if fresh_enough(server, query)? { AnsweredBy::Asked } else { AnsweredBy::Leader });
        }
        // Entries that this server has applied are the same on all servers. A malformed query is reported by the
        // leader.
        let view = server.view();
        let is_known = match when::asked(query) {
            Ok(Some(When::Index(index))) => index <= view.applied_index(),
            // More entries with exactly this time may still come.
            Ok(Some(When::Time(at))) => at < view.applied_at(),
            Ok(None) | Err(_) => false,
        };
        Ok(if is_known { AnsweredBy::Asked } else { AnsweredBy::Leader })
    }
}

/// Whether a request only reads.
pub(super) fn is_read(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) || path.starts_with("/v1/search")
}

/// Checks `max_stale`: the longest time since the last contact with the leader after which this server may still
/// answer.
fn fresh_enough<S: Reads>(server: &S, query: Query<'_>) -> Result<bool, ApiError> {
    let text = query.text("max_stale");
    if text.is_empty() {
        return Ok(true);
    }
    let nanos = parse_duration(&text).and_then(|nanos| u64::try_from(nanos).ok());
    let max = nanos.map(std::time::Duration::from_nanos).ok_or_else(|| ApiError::bad_request("Invalid max_stale"))?;
    Ok(server.contact().last_contact <= max)
}
