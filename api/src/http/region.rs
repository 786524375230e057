//! Requests for another region: forwarded to a server there, with nothing but the caller's own token. The other region
//! authenticates and answers as for any caller.

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::StreamExt as _;

use crate::error::ApiError;
use crate::http::api::Api;
use crate::http::params::Query;
use crate::server::{PassFailure, Server};

/// Prefixes of the routes that are about the asked agent, whatever the region says.
const OF_THE_AGENT: [&str; 9] = [
    "/debug/",
    "/ui/",
    "/v1/agent/",
    "/v1/jobs/parse",
    "/v1/metrics",
    "/v1/openapi.json",
    "/v1/operator/license",
    "/v1/regions",
    "/v1/sentinel/",
];

impl<S: Server> Api<S> {
    /// Addresses of servers in the region that a request names. Empty: this region answers, also when the region is
    /// unknown.
    pub(super) fn servers_elsewhere(&self, path: &str, query: &str) -> Vec<String> {
        let region = Query(query).text("region").into_owned();
        let is_elsewhere = !region.is_empty() && region != self.server.info().region;
        if !is_elsewhere || OF_THE_AGENT.iter().any(|beginning| path.starts_with(beginning)) {
            return Vec::new();
        }
        self.server.servers_of_region(&region)
    }

    /// Has one of these servers of another region answer. A request that may have arrived is not sent again.
    pub(super) async fn of_region(&self, servers: Vec<String>, parts: Parts, body: Body) -> Result<Response, ApiError> {
        let mut request = Request::from_parts(parts, body);
        let mut reason = String::new();
        for address in servers {
            match self.server.pass_to_region(&address, request).await {
                Ok(response) => return Ok(response.map(|body| self.until_shutdown(body))),
                Err(PassFailure::NotSent { request: unsent, why }) => (request, reason) = (*unsent, why),
                Err(PassFailure::Lost(why)) => return Err(ApiError::internal(format!("rpc error: {why}"))),
            }
        }
        Err(ApiError::internal(format!("rpc error: failed to get conn: {reason}")))
    }

    /// The body, which ends when this server shuts down: a stream of the other region would hold the connection open.
    fn until_shutdown(&self, body: Body) -> Body {
        let shutdown = self.server.shutdown().clone();
        Body::from_stream(body.into_data_stream().take_until(shutdown.cancelled_owned()))
    }
}
