//! The router and the layers around every handler: redirects, CORS, headers, errors, compression. The file of each
//! noun has its routes.

mod acl;
mod agent;
mod allocs;
mod answered_by;
mod audit;
mod autopilot;
mod blocking;
mod call;
mod compress;
mod cors;
mod csi;
mod deployments;
mod evals;
mod events;
mod exec;
mod explain;
mod forward;
mod fs;
mod gate;
mod history;
pub(crate) mod host;
mod ids;
mod jobs;
mod jwks;
mod keyring;
mod membership;
mod metadata;
mod migrate;
pub(crate) mod monitor;
mod mux;
mod namespaces;
mod nodes;
mod off_worker;
mod once;
mod openapi;
mod operator;
mod paging;
mod params;
pub(crate) mod passed;
mod past;
mod pools;
pub(crate) mod pprof;
mod raft;
mod rates;
mod scaling;
mod search;
mod services;
mod shown;
mod sso;
mod task;
mod variables;
mod work;
mod workers;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

pub use answered_by::AnsweredBy;
pub use exec::is_kept_apart;
pub use mux::{Answer, Capability, Handler, Methods, RouteInfo};
pub use rates::{Counted, Rate, RateOp, Route, identity_label};

use crate::caller::Callers;
use crate::error::ApiError;
use crate::server::Server;
use parking_lot::Mutex;

use call::{Call, error_response};
use forward::Answered;
use gate::Credentials;
use mux::{Found, Mux};
use params::Query;
use passed::PassedOn;

/// Handler of all requests to a server. Cheap to clone.
pub struct Api<S> {
    server: Arc<S>,
    shared: Shared<S>,
}

/// Part of [`Api`] that all connections to a server share; it does not hold the server. Cheap to clone.
pub struct Shared<S> {
    mux: Arc<Mux<S>>,
    headers: Arc<[(HeaderName, HeaderValue)]>,
    callers: Arc<Callers>,
}

/// Route of a request.
struct Target<S> {
    handler: Handler<S>,
    /// Range of the id in `path`.
    id: std::ops::Range<usize>,
    capability: Capability,
    /// Decoded path.
    path: String,
    route: Route,
}

/// The only route that a fenced server still answers. A server is fenced when it has found its own state wrong.
const HEALTH: &str = "/v1/agent/health";

impl<S> Clone for Api<S> {
    fn clone(&self) -> Self {
        Self { server: Arc::clone(&self.server), shared: self.shared.clone() }
    }
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self { mux: Arc::clone(&self.mux), headers: Arc::clone(&self.headers), callers: Arc::clone(&self.callers) }
    }
}

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
    allocs::routes(&mut mux);
    audit::routes(&mut mux);
    autopilot::routes(&mut mux);
    csi::routes(&mut mux);
    deployments::routes(&mut mux);
    evals::routes(&mut mux);
    events::routes(&mut mux);
    explain::routes(&mut mux);
    fs::routes(&mut mux);
    history::routes(&mut mux);
    host::routes(&mut mux);
    jobs::routes(&mut mux);
    jwks::routes(&mut mux);
    keyring::routes(&mut mux);
    membership::routes(&mut mux);
    metadata::routes(&mut mux);
    monitor::routes(&mut mux);
    namespaces::routes(&mut mux);
    nodes::routes(&mut mux);
    openapi::routes(&mut mux);
    operator::routes(&mut mux);
    pools::routes(&mut mux);
    pprof::routes(&mut mux);
    raft::routes(&mut mux);
    scaling::routes(&mut mux);
    search::routes(&mut mux);
    variables::routes(&mut mux);
    services::routes(&mut mux);
    sso::routes(&mut mux);
    work::routes(&mut mux);
    workers::routes(&mut mux);
    mux
}

impl<S: Server> Shared<S> {
    /// Makes the shared part for the connections to a server.
    pub fn of(server: &S) -> Self {
        let headers = server
            .info()
            .response_headers
            .iter()
            .filter_map(|(name, value)| Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?)));
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

    /// Makes the API of a server with the shared part of its other connections.
    pub fn with(server: Arc<S>, shared: Shared<S>) -> Self {
        Self { server, shared }
    }

    /// Handles one request. Infallible: an error is a response, too.
    pub async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let encoding = compress::wanted(&parts.headers);
        let origin = parts.headers.contains_key(header::ORIGIN);
        let Some(path) = mux::unescape(parts.uri.path()) else {
            return error_response(&*self.server, ApiError::bad_request("400 Bad Request"));
        };
        let path = path.into_owned();
        let cors = cors::methods(&path);
        if let Some(response) = cors.and_then(|methods| cors::preflight(methods, &parts.method, &parts.headers)) {
            return compress::apply(response, encoding);
        }
        let uri = parts.uri.clone();
        let query = uri.query().unwrap_or_default();
        let mut response = match self.shared.mux.find(&parts.method, &path, query) {
            Found::Handler { handler, id, capability, answered_by, route } => {
                if let Some(why) = self.server.fenced().filter(|_| path != HEALTH) {
                    let error = ApiError::internal(format!("this server serves nothing any more: {why}"));
                    return compress::apply(error_response(&*self.server, error), encoding);
                }
                let by = answered_by.this_time(&*self.server, &parts.method, &path, Query(query));
                let passed = parts.extensions.get::<PassedOn>().is_some_and(|passed| passed.by_server);
                let target = Target { handler, id, capability, path, route };
                let answered = match by {
                    Err(error) => Answered::Own(Err(error)),
                    Ok(AnsweredBy::Asked) => Answered::Own(self.here(&target, parts, body).await),
                    Ok(AnsweredBy::Leader) => self.of_leader(&target, parts, body).await,
                };
                match answered {
                    Answered::Passed(response) => return response,
                    Answered::Own(Ok(response)) => response,
                    Answered::Own(Err(error)) => {
                        let leaderless = error.leaderless.filter(|_| passed);
                        let mut response = error_response(&*self.server, error);
                        if let Some(fate) = leaderless {
                            passed::tell(response.headers_mut(), fate);
                        }
                        response
                    }
                }
            }
            Found::WrongMethod => error_response(&*self.server, ApiError::method()),
            Found::Redirect(to) => redirect(StatusCode::MOVED_PERMANENTLY, "Moved Permanently", &to, &parts.method),
            Found::Nothing if path == "/" => {
                let to = if query.is_empty() { "/ui/".to_owned() } else { format!("/ui/?{query}") };
                redirect(StatusCode::TEMPORARY_REDIRECT, "Temporary Redirect", &to, &parts.method)
            }
            Found::Nothing => status(StatusCode::NOT_FOUND),
        };
        for (name, value) in &*self.shared.headers {
            response.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        let mut response = compress::apply(response, encoding);
        if cors.is_some() {
            cors::decorate(origin, &mut response);
        }
        response
    }
}

impl<S: Server> Api<S> {
    /// Handles a request on this server.
    async fn here(&self, target: &Target<S>, parts: Parts, body: Body) -> Result<Response, ApiError> {
        // The node RPC measures the requests that it makes.
        let measured = parts.extensions.get::<Counted>().is_none();
        let started = Instant::now();
        let call = Call {
            server: Arc::clone(&self.server),
            method: parts.method,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            path: target.path.clone(),
            id: target.id.clone(),
            headers: parts.headers,
            credentials: Credentials::new(Arc::clone(&self.shared.callers), target.capability),
            body: Mutex::new(body),
            once: None,
            forward_key: parts.extensions.get::<PassedOn>().and_then(|passed| passed.key.clone()),
            past: None,
            stalled: parts.extensions.get().cloned(),
            peer: parts.extensions.get().copied(),
            upgrade: parts.extensions.get().cloned(),
            rate: target.route.rate.filter(|_| measured),
        };
        let answer = once::run(target.handler, call).await;
        if measured {
            self.server.measure_answer(target.route, started.elapsed());
        }
        answer
    }
}

fn status(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn redirect(code: StatusCode, word: &str, to: &str, method: &axum::http::Method) -> Response {
    let body = if method == axum::http::Method::GET {
        let escaped = to.replace('&', "&amp;").replace('"', "&#34;").replace('<', "&lt;").replace('>', "&gt;");
        Body::from(format!("<a href=\"{escaped}\">{word}</a>.\n\n"))
    } else {
        Body::empty()
    };
    let mut response = Response::new(body);
    *response.status_mut() = code;
    if let Ok(location) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    if method == axum::http::Method::GET || method == axum::http::Method::HEAD {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    }
    response
}
