//! Reads of the servers' API for the templates of this agent's tasks: the agent's own API answers them, as it answers
//! requests from outside.

use std::fmt;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use songline_api::Answer;
use songline_client::driver::Boxed;
use songline_client::{ReadAnswer, ServerReads};
use songline_model::Secret;

/// Largest answer in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The API of this agent. An agent without a server has it only after its node has started.
pub(crate) struct OwnReads(OnceLock<Arc<dyn Answer>>);

impl OwnReads {
    /// Reads from an API.
    pub(crate) fn new(api: Arc<dyn Answer>) -> Self {
        Self(OnceLock::from(api))
    }

    /// Reads from an API that comes later.
    pub(crate) fn later() -> Self {
        Self(OnceLock::new())
    }

    /// Sets the API. Only the first one counts.
    pub(crate) fn set(&self, api: Arc<dyn Answer>) {
        let _ = self.0.set(api);
    }
}

impl fmt::Debug for OwnReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnReads")
    }
}

impl ServerReads for OwnReads {
    fn get(&self, path: String, token: Secret) -> Boxed<'_, Result<ReadAnswer, String>> {
        Box::pin(async move {
            let api = self.0.get().ok_or("the agent is starting")?;
            let request = Request::builder().uri(path).header("x-nomad-token", token.reveal());
            let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
            let (parts, body) = api.answer(request).await.into_parts();
            let index = parts.headers.get("x-nomad-index").and_then(|index| index.to_str().ok()?.parse().ok());
            let body = to_bytes(body, ANSWER_BYTES_MAX).await.map_err(|error| error.to_string())?;
            Ok(ReadAnswer { status: parts.status.as_u16(), index: index.unwrap_or_default(), body: body.to_vec() })
        })
    }
}
