//! Standard parameters of a route (`region`, `wait`, `index`, ..), which are checked before its handler runs.

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::mux::Methods;
use crate::http::params::ReadParams;
use crate::server::Agent;

/// Standard parameters that a route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdParams {
    /// Those of a read.
    Read,
    /// Those of a read. The answer is about all regions, so `region` may name any.
    ReadOfAllRegions,
    /// Those of a write, those that the handler reads in its own way, or none.
    Own,
}

/// Prefixes of reads whose handlers parse parameters in their own way, or not at all.
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
        if is_below(&OWN) || TYPED_LISTS.contains(&path) || methods != Methods::Get && !is_below(&READ_BY_ANY_METHOD) {
            StdParams::Own
        } else if is_below(&OF_ALL_REGIONS) {
            StdParams::ReadOfAllRegions
        } else {
            StdParams::Read
        }
    }

    /// Refuses invalid parameters, and another region.
    pub(super) fn check<S: Agent>(self, call: &Call<S>) -> Result<(), ApiError> {
        match self {
            StdParams::Read => call.read_params().map(|_| ()),
            StdParams::ReadOfAllRegions => {
                let region = call.query().text("region");
                let own = &call.server.info().region;
                ReadParams::parse(call.query(), if region.is_empty() { own } else { &region }).map(|_| ())
            }
            StdParams::Own => Ok(()),
        }
    }
}
