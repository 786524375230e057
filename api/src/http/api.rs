//! The handler of all requests to a server, and how it handles one that this server answers itself.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use parking_lot::Mutex;

use crate::caller::{Callers, denied};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::credentials::Credentials;
use crate::http::encoding::Encoding;
use crate::http::events::OnlyNew;
use crate::http::mux::{Handler, Mux};
use crate::http::passed::PassedOn;
use crate::http::rates::Counted;
use crate::http::route::Route;
use crate::http::std_params::StdParams;
use crate::http::{once, std_params};
use crate::server::Server;

/// Handler of all requests to a server. Cheap to clone.
pub struct Api<S> {
    pub(super) server: Arc<S>,
    pub(super) shared: Shared<S>,
}

/// Part of [`Api`] that all connections to a server share; it does not hold the server. Cheap to clone.
pub struct Shared<S> {
    pub(super) mux: Arc<Mux<S>>,
    pub(super) headers: Arc<[(HeaderName, HeaderValue)]>,
    pub(super) callers: Arc<Callers>,
}

/// Route of a request.
pub(super) struct Target<S> {
    pub(super) handler: Handler<S>,
    /// Range of the id in `path`.
    pub(super) id: std::ops::Range<usize>,
    pub(super) capability: Capability,
    pub(super) std_params: StdParams,
    /// Decoded path.
    pub(super) path: String,
    pub(super) route: Route,
}

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

impl<S: Server> Api<S> {
    /// Makes the API of a server with the shared part of its other connections.
    pub fn with(server: Arc<S>, shared: Shared<S>) -> Self {
        Self { server, shared }
    }

    /// Handles a request on this server.
    pub(super) async fn here(&self, target: &Target<S>, parts: Parts, body: Body) -> Result<Response, ApiError> {
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
            stale_error: Arc::default(),
            only_new: parts.extensions.get::<OnlyNew>().is_some(),
            encoding: parts.extensions.get::<Encoding>().copied().unwrap_or_default(),
        };
        let (stale_error, credentials) = (Arc::clone(&call.stale_error), call.credentials.clone());
        let mut answer = once::run(target.handler, target.std_params, call).await;
        // A handler that forgot to check its caller tells nothing.
        if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) && !credentials.is_admitted() {
            answer = Err(denied());
        }
        if measured {
            self.server.measure_answer(target.route, started.elapsed());
        }
        match stale_error.get() {
            Some(error) => std_params::after(error, answer),
            None => answer,
        }
    }
}
