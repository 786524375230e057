//! Requests to the HTTP API of a Consul agent.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use songline_model::{Dur, Secret, Str, with_sources};

use super::definition::{CheckDefinition, ServiceDefinition, TaggedAddress};
use super::settings::ConsulSettings;
use crate::escape;

/// Largest text of a refusal that is kept, in bytes.
const REFUSAL_BYTES_MAX: usize = 512;
/// Largest answer for a template, in bytes.
const FOUND_BYTES_MAX: usize = 32 << 20;
/// Header of an answer's index.
const INDEX: &str = "X-Consul-Index";

/// Reason why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The agent gave no answer.
    #[error("Consul agent at {address}: {reason}")]
    Unreachable { address: String, reason: String },
    /// The agent refused the request.
    #[error("Consul agent: {path}: unexpected response code {status} ({text})")]
    Refused { path: String, status: u16, text: String },
}

/// A service as the agent knows it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct KnownService {
    pub service: Str,
    pub tags: Option<Vec<Str>>,
    pub address: Str,
    pub port: i64,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub enable_tag_override: bool,
    pub tagged_addresses: Option<BTreeMap<Str, TaggedAddress>>,
}

/// A check as the agent knows it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct KnownCheck {
    pub status: Str,
    pub output: Str,
    #[serde(rename = "ServiceID")]
    pub service_id: Str,
}

/// Answer to a read that may wait.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// HTTP status.
    pub status: u16,
    /// Index of the answer; 0 if it has none.
    pub index: u64,
    /// JSON, or the text of an error.
    pub body: Vec<u8>,
}

/// A Consul agent. Clones share connections.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    http: Client,
    address: String,
    token: Secret,
    auth: Option<(String, Secret)>,
    timeout: Duration,
}

impl Agent {
    /// Nothing is connected yet. The error says which setting is wrong.
    pub fn new(settings: &ConsulSettings) -> Result<Self, String> {
        let http = settings.trust.http_client().map_err(|error| format!("consul: {}", with_sources(&error)))?;
        let http = http.no_proxy().timeout(settings.timeout.to_std()).build();
        let auth = settings.auth.reveal().split_once(':').map(|(user, word)| (user.to_owned(), Secret::new(word)));
        Ok(Self {
            timeout: settings.timeout.to_std(),
            http: http.map_err(|error| format!("consul: {}", with_sources(&error)))?,
            address: settings.url(),
            token: settings.token.clone(),
            auth,
        })
    }

    /// The agent's configuration and its member, as JSON.
    pub async fn about_itself(&self) -> Result<Value, CallError> {
        self.read("/v1/agent/self").await
    }

    /// All services of the agent, by id.
    pub async fn services(&self) -> Result<BTreeMap<Str, KnownService>, CallError> {
        self.read("/v1/agent/services").await
    }

    /// All checks of the agent, by id.
    pub async fn checks(&self) -> Result<BTreeMap<Str, KnownCheck>, CallError> {
        self.read("/v1/agent/checks").await
    }

    /// Registers a service with its checks, or replaces it. Checks that it had before stay.
    pub async fn register_service(&self, service: &ServiceDefinition) -> Result<(), CallError> {
        self.write("/v1/agent/service/register", Some(json!(service))).await
    }

    /// Removes a service with its checks. A service that is gone is no error.
    pub async fn deregister_service(&self, id: &str) -> Result<(), CallError> {
        gone(self.write(&format!("/v1/agent/service/deregister/{}", escape::segment(id)), None).await)
    }

    /// Registers one check of a service.
    pub async fn register_check(&self, check: &CheckDefinition) -> Result<(), CallError> {
        self.write("/v1/agent/check/register", Some(check.alone())).await
    }

    /// Removes a check. A check that is gone is no error.
    pub async fn deregister_check(&self, id: &str) -> Result<(), CallError> {
        gone(self.write(&format!("/v1/agent/check/deregister/{}", escape::segment(id)), None).await)
    }

    /// Sets the status of a check that others run.
    pub async fn update_check(&self, id: &str, status: &str, output: &str) -> Result<(), CallError> {
        let path = format!("/v1/agent/check/update/{}", escape::segment(id));
        self.write(&path, Some(json!({ "Status": status, "Output": output }))).await
    }

    /// Reads a path with its query, whatever the status. Consul may hold the answer back for `wait`.
    ///
    /// # Errors
    /// There is no answer, or it is larger than [`FOUND_BYTES_MAX`].
    pub async fn get(&self, path: &str, wait: Dur) -> Result<Found, CallError> {
        let failed = |error: reqwest::Error| self.unreachable(with_sources(&error.without_url()));
        let request = self.with_rights(self.http.get(format!("{}{path}", self.address)));
        // Consul adds up to a sixteenth to the wait.
        let limit = self.timeout + wait.to_std() * 17 / 16;
        let mut answer = request.timeout(limit).send().await.map_err(failed)?;
        let index = answer.headers().get(INDEX).and_then(|index| index.to_str().ok()?.parse().ok()).unwrap_or(0);
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&part);
            if body.len() > FOUND_BYTES_MAX {
                return Err(self.unreachable(format!("the answer has more than {FOUND_BYTES_MAX} bytes")));
            }
        }
        Ok(Found { status, index, body })
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let body = self.ask(Method::GET, path, None).await?;
        serde_json::from_slice(&body).map_err(|error| self.unreachable(format!("{path}: {error}")))
    }

    async fn write(&self, path: &str, body: Option<Value>) -> Result<(), CallError> {
        self.ask(Method::PUT, path, body).await.map(drop)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Vec<u8>, CallError> {
        let failed = |error: reqwest::Error| self.unreachable(with_sources(&error.without_url()));
        let request = self.with_rights(self.http.request(method, format!("{}{path}", self.address)));
        let request = match body {
            Some(body) => request.header("Content-Type", "application/json").body(body.to_string()),
            None => request,
        };
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(failed)?;
        if status.is_success() {
            return Ok(body.to_vec());
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]).trim().to_owned();
        Err(CallError::Refused { path: path.to_owned(), status: status.as_u16(), text })
    }

    fn with_rights(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match &self.auth {
            Some((user, word)) => request.basic_auth(user, Some(word.reveal())),
            None => request,
        };
        match self.token.reveal() {
            "" => request,
            token => request.header("X-Consul-Token", token),
        }
    }

    fn unreachable(&self, reason: String) -> CallError {
        CallError::Unreachable { address: self.address.clone(), reason }
    }
}

/// The result of a removal. Consul answers 404, in versions before 1.11 500, for what it does not know.
fn gone(outcome: Result<(), CallError>) -> Result<(), CallError> {
    match outcome {
        Err(CallError::Refused { status: 404, .. }) => Ok(()),
        Err(CallError::Refused { text, .. }) if text.starts_with("Unknown ") => Ok(()),
        outcome => outcome,
    }
}
