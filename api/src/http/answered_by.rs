//! Which server answers a route, and which this one request of it: the leader, or whoever is asked. Passing on is not here.

use axum::http::Method;

use crate::error::ApiError;
use crate::http::params::{Query, parse_duration};
use crate::http::past::{self, When};
use crate::server::Server;

/// Which server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The leader: it writes, and knows the newest state. Reads may ask for less.
    Leader,
    /// Whoever is asked: it is about that agent, or about a node that is reached from it, or the same everywhere.
    Asked,
}

/// Beginnings of the routes that whoever is asked answers. All others are the leader's, so that a new route is right before it is fast.
const ASKED: [&str; 14] = [
    "/ui/",
    "/v1/agent/",
    "/v1/client/",
    "/v1/event/stream",
    "/v1/jobs/parse",
    "/v1/jwks.json",
    "/v1/metrics",
    "/v1/openapi.json",
    "/v1/operator/license",
    "/v1/quota",
    "/v1/recommendation",
    "/v1/regions",
    "/v1/sentinel/",
    "/v1/status/",
];

/// The one route about agents that only the leader can answer: it changes who is a member.
const OF_LEADER: &str = "/v1/agent/force-leave";

impl AnsweredBy {
    /// Who answers a route with this root.
    pub(super) fn of(root: &str) -> Self {
        if root == OF_LEADER {
            return AnsweredBy::Leader;
        }
        if ASKED.iter().any(|beginning| root.starts_with(beginning)) { AnsweredBy::Asked } else { AnsweredBy::Leader }
    }

    /// Who answers one request of such a route: a read may be content with what this server has.
    pub(super) fn this_time<S: Server>(self, server: &S, method: &Method, path: &str, query: Query<'_>) -> Result<Self, ApiError> {
        if self == AnsweredBy::Asked || query.0.is_empty() || !is_read(method, path) {
            return Ok(self);
        }
        if query.flag("stale") {
            return Ok(if fresh_enough(server, query)? { AnsweredBy::Asked } else { AnsweredBy::Leader });
        }
        // What is past here is the same everywhere. A faulty query is told of wherever it is answered.
        let view = server.view();
        let is_known = match past::asked(query) {
            Ok(Some(When::Index(index))) => index <= view.applied_index(),
            // Entries with this very time may still come.
            Ok(Some(When::Time(at))) => at < view.applied_at(),
            Ok(None) | Err(_) => false,
        };
        Ok(if is_known { AnsweredBy::Asked } else { AnsweredBy::Leader })
    }
}

/// Whether a request writes nothing.
pub(super) fn is_read(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) || path.starts_with("/v1/search")
}

/// `max_stale`: how long ago a server may have heard of the leader that answers from what it has.
fn fresh_enough<S: Server>(server: &S, query: Query<'_>) -> Result<bool, ApiError> {
    let text = query.text("max_stale");
    if text.is_empty() {
        return Ok(true);
    }
    let nanos = parse_duration(&text).and_then(|nanos| u64::try_from(nanos).ok());
    let max = nanos.map(std::time::Duration::from_nanos).ok_or_else(|| ApiError::bad_request("Invalid max_stale"))?;
    Ok(server.contact().last_contact <= max)
}
