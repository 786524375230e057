//! The connection to the container engine, and its errors in the words that users know.

use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use parking_lot::Mutex;

use super::podman;

/// Header with the credentials of a pull.
const REGISTRY_AUTH: &str = "x-registry-auth";
/// Timeout of the beginning of an answer, in seconds.
const ANSWER_MAX_SECS: u64 = 120;
/// Timeout of the first requests on a connection.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// The engine at an endpoint. Connections are made when they are needed.
#[derive(Debug)]
pub(super) struct Engine {
    endpoint: String,
    connected: Mutex<Option<Connected>>,
}

/// A client, and what answers it.
#[derive(Debug, Clone)]
struct Connected {
    client: Docker,
    is_podman: bool,
}

/// A refusal by the engine, or a failure to reach it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(super) struct Failure {
    /// Status of the engine's answer; `None` without an answer.
    pub status: Option<u16>,
    text: String,
}

impl Failure {
    /// A failure that is not the engine's.
    pub fn new(text: impl Into<String>) -> Self {
        Self { status: None, text: text.into() }
    }

    /// The failure with a longer text.
    pub fn with(self, longer: impl FnOnce(&str) -> String) -> Self {
        Self { text: longer(&self.text), ..self }
    }

    /// Whether the engine does not know the object.
    pub fn is_not_found(&self) -> bool {
        self.status == Some(404)
    }

    /// Whether the engine refuses because of the object's state: it has ended, or its name is taken.
    pub fn is_conflict(&self) -> bool {
        self.status == Some(409) || podman::is_conflict(self.status, &self.text)
    }

    /// Whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        self.status.is_none_or(|status| status >= 500)
    }
}

impl From<bollard::errors::Error> for Failure {
    fn from(error: bollard::errors::Error) -> Self {
        match error {
            bollard::errors::Error::DockerResponseServerError { status_code, message } => {
                Self { status: Some(status_code), text: format!("API error ({status_code}): {message}") }
            }
            bollard::errors::Error::DockerStreamError { error } => Self::new(error),
            other => Self::new(songline_model::with_sources(&other)),
        }
    }
}

impl Engine {
    /// Creates the engine of an endpoint, without a connection.
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), connected: Mutex::default() }
    }

    /// Whether the engine's processes are processes of this machine.
    pub fn is_local(&self) -> bool {
        self.endpoint.starts_with("unix://")
    }

    /// The client, with a version of the API that both sides know.
    pub async fn client(&self) -> Result<Docker, Failure> {
        Ok(self.connected().await?.client)
    }

    /// Whether Podman's service answers in place of Docker's engine.
    pub async fn is_podman(&self) -> Result<bool, Failure> {
        Ok(self.connected().await?.is_podman)
    }

    async fn connected(&self) -> Result<Connected, Failure> {
        if let Some(connected) = self.connected.lock().clone() {
            return Ok(connected);
        }
        let client = connect(&self.endpoint)?;
        let greeting = async {
            let client = client.negotiate_version().await?;
            let is_podman = podman::is_podman(&client.version().await?);
            Ok::<_, Failure>(Connected { client, is_podman })
        };
        let connected = tokio::time::timeout(GREETING_MAX, greeting)
            .await
            .map_err(|_| Failure::new(format!("the container engine at {} does not answer", self.endpoint)))??;
        *self.connected.lock() = Some(connected.clone());
        Ok(connected)
    }

    /// Drops the negotiated version: the next engine at the endpoint may be another one.
    pub fn forget(&self) {
        *self.connected.lock() = None;
    }
}

fn connect(endpoint: &str) -> Result<Docker, Failure> {
    let client = match endpoint.split_once("://") {
        Some(("unix", path)) => Docker::connect_with_unix(path, ANSWER_MAX_SECS, API_DEFAULT_VERSION)?,
        Some(("tcp" | "http", _)) => Docker::connect_with_http(endpoint, ANSWER_MAX_SECS, API_DEFAULT_VERSION)?,
        Some(_) | None => {
            return Err(Failure::new(format!("endpoint {endpoint:?}: only unix://, tcp:// and http:// are supported")));
        }
    };
    Ok(client.with_request_modifier(credentials_for_addresses))
}

/// Writes credentials in the alphabet of base64 that engines read; the crate uses the other one.
fn credentials_for_addresses(mut request: BollardRequest) -> BollardRequest {
    if let Some(value) = request.headers_mut().get_mut(REGISTRY_AUTH) {
        let changed = value.to_str().ok().map(|text| text.replace('+', "-").replace('/', "_"));
        if let Some(changed) = changed.and_then(|text| text.parse().ok()) {
            *value = changed;
        }
    }
    request
}
