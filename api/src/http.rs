//! The list of routes. The file of each noun has its own; `mux` finds the route of a request, `answer` has the layers
//! around every handler. No handler imports this file.

mod acl;
mod agent;
mod alloc;
mod answer;
pub(crate) mod answered_by;
pub(crate) mod api;
pub(crate) mod ask_region;
mod audit;
mod autopilot;
mod blocking;
mod call;
pub(crate) mod capability;
mod compress;
mod cors;
mod credentials;
mod csi;
mod deployment;
mod elsewhere;
mod encoding;
mod eval;
mod event_sink;
mod events;
mod exec;
mod explain;
mod forward;
mod fs;
mod gate;
mod history;
pub(crate) mod host;
mod idempotency;
mod ids;
mod job;
mod jwks;
mod membership;
mod metadata;
mod migrate;
pub(crate) mod monitor;
pub(crate) mod mux;
mod namespace;
mod node;
mod node_pool;
mod off_worker;
mod once;
mod openapi;
mod operator;
mod paging;
mod params;
pub(crate) mod passed;
mod past;
mod path;
pub(crate) mod pprof;
mod quota;
mod raft;
pub(crate) mod rate;
mod rates;
mod region;
mod root_key;
pub(crate) mod route;
mod scaling;
mod search;
mod service_registration;
mod shown;
mod sso;
pub(crate) mod std_params;
mod task;
mod ui;
mod variable;
mod what_if;
mod when;
mod work;
mod workers;

use std::future::ready;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};

pub use answered_by::AnsweredBy;
pub use api::{Api, Shared};
pub use capability::Capability;
pub use encoding::{Encoding, NODE_RPC_TYPE};
pub use events::OnlyNew;
pub use exec::is_kept_apart;
pub use mux::{Answer, Handler, Methods, RouteInfo};
pub use rate::{Rate, RateOp};
pub use rates::{Counted, identity_label};
pub use route::Route;

use crate::server::Server;

use mux::Mux;

/// The API of a server as an axum router, for callers that embed it.
pub fn router<S: Server>(server: Arc<S>) -> axum::Router {
    let api = Api::new(server);
    axum::Router::new().fallback(move |request: Request| {
        let api = api.clone();
        async move { api.answer(request).await }
    })
}

/// All routes with their methods and capabilities, one per line.
pub fn routes_text<S: Server>() -> String {
    mux::<S>().text()
}

/// All routes with their methods and capabilities.
pub fn routes<S: Server>() -> Vec<RouteInfo> {
    mux::<S>().routes()
}

/// The OpenAPI document of all routes. `version` is the version of the interface.
pub fn openapi_document<S: Server>(version: &str) -> serde_json::Value {
    crate::openapi::document(version, &routes::<S>())
}

fn mux<S: Server>() -> Mux<S> {
    let mut mux = Mux::default();
    acl::routes(&mut mux);
    agent::routes(&mut mux);
    // Order matters: `exec` and `migrate` come before other routes below the same root, whose last pattern matches
    // everything.
    exec::routes(&mut mux);
    migrate::routes(&mut mux);
    alloc::routes(&mut mux);
    audit::routes(&mut mux);
    autopilot::routes(&mut mux);
    csi::routes(&mut mux);
    deployment::routes(&mut mux);
    eval::routes(&mut mux);
    event_sink::routes(&mut mux);
    events::routes(&mut mux);
    explain::routes(&mut mux);
    fs::routes(&mut mux);
    history::routes(&mut mux);
    host::routes(&mut mux);
    job::routes(&mut mux);
    jwks::routes(&mut mux);
    root_key::routes(&mut mux);
    membership::routes(&mut mux);
    metadata::routes(&mut mux);
    monitor::routes(&mut mux);
    namespace::routes(&mut mux);
    node::routes(&mut mux);
    openapi::routes(&mut mux, |call| Box::pin(ready(Ok(openapi::show(&call, openapi_document::<S>)))));
    operator::routes(&mut mux);
    node_pool::routes(&mut mux);
    quota::routes(&mut mux);
    pprof::routes(&mut mux);
    raft::routes(&mut mux);
    scaling::routes(&mut mux);
    search::routes(&mut mux);
    ui::routes(&mut mux);
    variable::routes(&mut mux);
    service_registration::routes(&mut mux);
    sso::routes(&mut mux);
    what_if::routes(&mut mux);
    work::routes(&mut mux);
    workers::routes(&mut mux);
    mux
}

impl<S: Server> Shared<S> {
    /// Makes the shared part for the connections to a server.
    pub fn of(server: &S) -> Self {
        let headers = server.info().response_headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
        });
        let headers = headers.collect();
        Self { mux: Arc::new(mux()), headers, callers: Arc::default() }
    }
}

impl<S: Server> Api<S> {
    /// Makes the API of a server.
    pub fn new(server: Arc<S>) -> Self {
        let shared = Shared::of(&*server);
        Self::with(server, shared)
    }
}
