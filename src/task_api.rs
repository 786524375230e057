//! The task API: this agent's own API answers requests over the sockets in tasks' secrets directories.

use std::fmt;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use songline_api::{Answer, Answering, Limits};
use songline_client::TaskApi;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

/// The API of this agent, for tasks of its node. An agent without a server has it only after its node has started.
pub(crate) struct OwnApi(Arc<Later>);

impl OwnApi {
    /// Serves an API.
    pub(crate) fn new(api: Arc<dyn Answer>) -> Self {
        Self(Arc::new(Later(OnceLock::from(api))))
    }

    /// Serves an API that comes later.
    pub(crate) fn later() -> Self {
        Self(Arc::new(Later(OnceLock::new())))
    }

    /// Sets the API. Only the first one counts.
    pub(crate) fn set(&self, api: Arc<dyn Answer>) {
        let _ = self.0.0.set(api);
    }
}

impl fmt::Debug for OwnApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnApi")
    }
}

impl TaskApi for OwnApi {
    fn serve(&self, listener: UnixListener, until: CancellationToken) {
        let api = Arc::clone(&self.0) as Arc<dyn Answer>;
        tokio::spawn(songline_api::serve_task(listener, api, Limits::default(), until));
    }
}

/// An API that may not be there yet: a task that an earlier agent has started may ask while this one starts.
struct Later(OnceLock<Arc<dyn Answer>>);

impl Answer for Later {
    fn answer(&self, request: Request) -> Answering<'_> {
        match self.0.get() {
            Some(api) => api.answer(request),
            None => Box::pin(async {
                let mut response = Response::new(Body::from("the agent is starting"));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }),
        }
    }
}
