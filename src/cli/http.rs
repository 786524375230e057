//! Talking to an agent over its HTTP API.

use anyhow::{Context, bail};
use serde_json::Value;

use super::Target;

/// Certificates of who may have signed that of an agent: PEM that can be used.
#[derive(Debug, Clone)]
pub(crate) struct Trusted(Vec<String>);

/// Reads the file that a flag names.
pub(crate) fn trusted(path: &str) -> Result<Trusted, String> {
    let pem = vec![std::fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"))?];
    match songline_client::tls::http_client_trusting(&pem) {
        Ok(_) => Ok(Trusted(pem)),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

/// One agent.
pub(crate) struct Api {
    client: reqwest::Client,
    address: String,
    namespace: String,
}

impl Api {
    pub(crate) fn new(target: &Target) -> Self {
        let mut headers = reqwest::header::HeaderMap::new();
        // A token that cannot stand in a header is none; the agent says so.
        if let Ok(mut token) = reqwest::header::HeaderValue::from_str(target.token.trim()) {
            token.set_sensitive(true);
            headers.insert("x-nomad-token", token);
        }
        let client = match &target.ca_cert {
            None => songline_client::tls::http_client(),
            Some(Trusted(pem)) => {
                songline_client::tls::http_client_trusting(pem).expect("it was tried when it was named")
            }
        };
        Self {
            client: client.default_headers(headers).build().expect("a client with one header can be made"),
            address: target.address.trim_end_matches('/').to_owned(),
            namespace: target.namespace.clone(),
        }
    }

    /// The JSON answer of a read.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.open(path).await?;
        response.json().await.with_context(|| format!("reading the answer of {path}"))
    }

    /// An answer whose body is read by the caller, piece by piece.
    pub(crate) async fn open(&self, path: &str) -> anyhow::Result<reqwest::Response> {
        self.send(self.client.get(self.url(path))).await
    }

    /// The connection itself, once the agent has agreed that it becomes a websocket.
    pub(crate) async fn upgrade(&self, path: &str) -> anyhow::Result<reqwest::Upgraded> {
        let request = self.client.get(self.url(path));
        let request = request
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13");
        // Only there so that no cache answers.
        let response = request
            .header("Sec-WebSocket-Key", tokio_tungstenite::tungstenite::handshake::client::generate_key())
            .send()
            .await;
        let response = response.with_context(|| format!("asking the agent at {}", self.address))?;
        if response.status() != reqwest::StatusCode::SWITCHING_PROTOCOLS {
            let (status, text) = (response.status().as_u16(), response.text().await.unwrap_or_default());
            bail!("Unexpected response code: {status} ({})", text.trim_end());
        }
        response.upgrade().await.context("turning the connection into a websocket")
    }

    /// The JSON answer of a write, null when it has none.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let response = self.send(self.client.put(self.url(path)).json(body)).await?;
        answer(response).await
    }

    /// A write of a file, piece by piece.
    pub(crate) async fn put_file(&self, path: &str, file: tokio::fs::File) -> anyhow::Result<Value> {
        let body = reqwest::Body::wrap_stream(tokio_util::io::ReaderStream::new(file));
        let response = self.send(self.client.put(self.url(path)).body(body)).await?;
        answer(response).await
    }

    /// The JSON answer of a deletion.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.send(self.client.delete(self.url(path))).await?;
        answer(response).await
    }

    fn url(&self, path: &str) -> String {
        let joint = if path.contains('?') { '&' } else { '?' };
        format!("{}{path}{joint}namespace={}", self.address, self.namespace)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> anyhow::Result<reqwest::Response> {
        let response = request.send().await.with_context(|| format!("asking the agent at {}", self.address))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        bail!("Unexpected response code: {} ({})", status.as_u16(), text.trim_end());
    }
}

async fn answer(response: reqwest::Response) -> anyhow::Result<Value> {
    let bytes = response.bytes().await?;
    if bytes.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_slice(&bytes)?) }
}

/// The text of a JSON string, empty for anything else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The first eight characters of an id: enough for people.
pub(crate) fn short(value: &Value) -> &str {
    let id = text(value);
    id.get(..8).unwrap_or(id)
}
