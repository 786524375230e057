//! Talking to an agent over its HTTP API.

use reqwest::{Method, StatusCode};
use serde_json::Value;

/// How to reach an agent.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// `http://`, `https://` or `unix://PATH`.
    pub address: String,
    /// Region of every request, if not the agent's.
    pub region: Option<String>,
    /// Namespace of every request, if not `default`.
    pub namespace: Option<String>,
    /// Secret of a token.
    pub token: Option<String>,
    /// `user` or `user:password` of basic authentication.
    pub basic: Option<String>,
    /// PEM file of trusted certificates.
    pub ca_cert: Option<String>,
    /// Directory of such files.
    pub ca_path: Option<String>,
    /// Certificate of this side.
    pub client_cert: Option<String>,
    /// Its key.
    pub client_key: Option<String>,
    /// Name that the agent's certificate must have.
    pub tls_server_name: Option<String>,
    /// Whether any certificate will do.
    pub tls_skip_verify: bool,
}

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The agent refused.
    #[error("Unexpected response code: {status} ({body})")]
    Refused {
        /// Status of the answer.
        status: u16,
        /// Body of the answer.
        body: String,
    },
    /// The agent was not reached, or its answer broke off.
    #[error("failed to make the request: {0}")]
    Transport(String),
    /// The answer is not what the route answers.
    #[error("failed to decode the answer: {0}")]
    Answer(String),
}

impl RequestError {
    /// Whether the agent answered with this status.
    pub fn is_status(&self, wanted: u16) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == wanted)
    }
}

/// An answer with what its headers tell.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The body.
    pub value: Value,
    /// `X-Nomad-Index`: where a blocking query goes on.
    pub index: u64,
    /// `X-Nomad-NextToken`: the next page.
    pub next_token: Option<String>,
    /// `X-Nomad-LastContact`, in milliseconds.
    pub last_contact_ms: u64,
    /// `X-Nomad-KnownLeader`.
    pub known_leader: bool,
}

/// One agent.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Address that requests go to, without a slash at the end.
    base: String,
    setup: Setup,
}

impl Client {
    pub(crate) fn new(setup: Setup) -> Result<Self, String> {
        let builder = reqwest::Client::builder().tls_backend_preconfigured(crate::tls::config(&setup)?);
        let (builder, base) = place(builder, &setup)?;
        let http = builder.build().map_err(|error| because(&error))?;
        Ok(Self { http, base, setup })
    }

    /// A client of an agent at an address, without options.
    ///
    /// # Errors
    /// An address that cannot be used.
    pub fn at(address: &str) -> Result<Self, String> {
        Self::new(Setup { address: address.to_owned(), ..Setup::default() })
    }

    /// The same agent with another region or namespace: a job file's go before flags.
    pub fn with_scope(&self, region: Option<&str>, namespace: Option<&str>) -> Self {
        let mut other = self.clone();
        other.setup.region = region.map(str::to_owned).or(other.setup.region);
        other.setup.namespace = namespace.map(str::to_owned).or(other.setup.namespace);
        other
    }

    /// The same agent with another token.
    pub fn with_token(&self, token: &str) -> Self {
        let mut other = self.clone();
        other.setup.token = Some(token.to_owned());
        other
    }

    /// The namespace of requests.
    pub fn namespace(&self) -> &str {
        self.setup.namespace.as_deref().unwrap_or("default")
    }

    /// The region of requests, if one was asked for.
    pub fn region(&self) -> Option<&str> {
        self.setup.region.as_deref()
    }

    /// The agent's address, as it was given.
    pub fn address(&self) -> &str {
        &self.setup.address
    }

    /// The JSON answer of a read.
    ///
    /// # Errors
    /// The request failed.
    pub async fn get(&self, path: &str) -> Result<Value, RequestError> {
        Ok(self.ask(path).await?.value)
    }

    /// The JSON answer of a read with its headers.
    ///
    /// # Errors
    /// The request failed.
    pub async fn ask(&self, path: &str) -> Result<Answer, RequestError> {
        answer(self.open(path).await?).await
    }

    /// An answer whose body the caller reads piece by piece.
    ///
    /// # Errors
    /// The request failed.
    pub async fn open(&self, path: &str) -> Result<reqwest::Response, RequestError> {
        sent(self.request(Method::GET, path)).await
    }

    /// The JSON answer of a write, null when it has none.
    ///
    /// # Errors
    /// The request failed.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, RequestError> {
        Ok(answer(sent(self.request(Method::PUT, path).json(body)).await?).await?.value)
    }

    /// The JSON answer of a POST.
    ///
    /// # Errors
    /// The request failed.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, RequestError> {
        Ok(answer(sent(self.request(Method::POST, path).json(body)).await?).await?.value)
    }

    /// A write of a file, piece by piece.
    ///
    /// # Errors
    /// The request failed.
    pub async fn put_file(&self, path: &str, file: tokio::fs::File) -> Result<Value, RequestError> {
        let body = reqwest::Body::wrap_stream(tokio_util::io::ReaderStream::new(file));
        Ok(answer(sent(self.request(Method::PUT, path).body(body)).await?).await?.value)
    }

    /// The JSON answer of a deletion.
    ///
    /// # Errors
    /// The request failed.
    pub async fn delete(&self, path: &str) -> Result<Value, RequestError> {
        Ok(answer(sent(self.request(Method::DELETE, path)).await?).await?.value)
    }

    /// The JSON answer of a deletion with a body.
    ///
    /// # Errors
    /// The request failed.
    pub async fn delete_with(&self, path: &str, body: &Value) -> Result<Value, RequestError> {
        Ok(answer(sent(self.request(Method::DELETE, path).json(body)).await?).await?.value)
    }

    /// The JSON answer to a request that the caller has completed.
    ///
    /// # Errors
    /// The request failed.
    pub async fn completed(&self, request: reqwest::RequestBuilder) -> Result<Answer, RequestError> {
        answer(sent(request).await?).await
    }

    /// A request that the caller completes and sends: `operator api`. A path that begins with `/` gets the region and
    /// namespace as parameters, if it does not name them.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let mut url = format!("{}{path}", self.base);
        for (key, value) in [("region", &self.setup.region), ("namespace", &self.setup.namespace)] {
            let named = path
                .split_once('?')
                .is_some_and(|(_, query)| query.split('&').any(|pair| pair.split('=').next() == Some(key)));
            if let Some(value) = value.as_ref().filter(|_| !named) {
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(&format!("{key}={}", escape(value)));
            }
        }
        let mut request = self.http.request(method, url);
        if let Some(token) = &self.setup.token {
            // A token that cannot stand in a header is none; the agent says so.
            if let Ok(mut token) = reqwest::header::HeaderValue::from_str(token.trim()) {
                token.set_sensitive(true);
                request = request.header("X-Nomad-Token", token);
            }
        }
        if let Some(basic) = &self.setup.basic {
            let (user, password) = match basic.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (basic.as_str(), Some("")),
            };
            request = request.basic_auth(user, password);
        }
        request
    }

    /// The JSON answer of a request with a JSON body.
    ///
    /// # Errors
    /// The request failed.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, RequestError> {
        Ok(answer(sent(self.request(method, path).json(body)).await?).await?.value)
    }

    /// The answer of a request, whatever its status.
    ///
    /// # Errors
    /// The agent was not reached.
    pub async fn execute(&self, request: reqwest::Request) -> reqwest::Result<reqwest::Response> {
        self.http.execute(request).await
    }

    /// The connection itself, once the agent has agreed that it becomes a websocket.
    ///
    /// # Errors
    /// The request failed, or the agent did not agree.
    pub async fn upgrade(&self, path: &str) -> Result<reqwest::Upgraded, RequestError> {
        let request = self.request(Method::GET, path);
        let request = request
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13");
        // The key only keeps caches from answering.
        let key = tokio_tungstenite::tungstenite::handshake::client::generate_key();
        let response = request.header("Sec-WebSocket-Key", key).send().await;
        let response = response.map_err(|error| RequestError::Transport(because(&error)))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response).await);
        }
        response.upgrade().await.map_err(|error| RequestError::Transport(because(&error)))
    }
}

/// A client of any web server: downloads.
pub(crate) fn plain() -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder().tls_backend_preconfigured(crate::tls::config(&Setup::default())?);
    builder.build().map_err(|error| because(&error))
}

/// Target of requests: a socket, or a host whose certificate may have another name.
fn place(builder: reqwest::ClientBuilder, setup: &Setup) -> Result<(reqwest::ClientBuilder, String), String> {
    let address = setup.address.trim_end_matches('/');
    if let Some(path) = address.strip_prefix("unix://") {
        return Ok((builder.unix_socket(path.to_owned()), "http://localhost".to_owned()));
    }
    let mut url = reqwest::Url::parse(address).map_err(|error| format!("invalid address {address:?}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("invalid address {address:?}: it must begin with http://, https:// or unix://"));
    }
    let Some(name) = setup.tls_server_name.as_ref().filter(|_| url.scheme() == "https") else {
        return Ok((builder, address.to_owned()));
    };
    // The name in the URL is the one that TLS sends and checks; the connection goes to the address all the same.
    let addresses = url.socket_addrs(|| None).map_err(|error| error.to_string())?;
    url.set_host(Some(name)).map_err(|error| error.to_string())?;
    let base = url.to_string().trim_end_matches('/').to_owned();
    Ok((builder.resolve_to_addrs(name, &addresses), base))
}

async fn sent(request: reqwest::RequestBuilder) -> Result<reqwest::Response, RequestError> {
    let response = request.send().await.map_err(|error| RequestError::Transport(because(&error)))?;
    if response.status().is_success() { Ok(response) } else { Err(refused(response).await) }
}

async fn refused(response: reqwest::Response) -> RequestError {
    let status = response.status().as_u16();
    let body = response.text().await.unwrap_or_default();
    RequestError::Refused { status, body: body.trim_end().to_owned() }
}

async fn answer(response: reqwest::Response) -> Result<Answer, RequestError> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let number = |name| header(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut answer = Answer {
        value: Value::Null,
        index: number("x-nomad-index"),
        next_token: header("x-nomad-nexttoken").filter(|token| !token.is_empty()),
        last_contact_ms: number("x-nomad-lastcontact"),
        known_leader: header("x-nomad-knownleader").as_deref() == Some("true"),
    };
    let bytes = response.bytes().await.map_err(|error| RequestError::Transport(because(&error)))?;
    if !bytes.is_empty() {
        answer.value = serde_json::from_slice(&bytes).map_err(|error| RequestError::Answer(error.to_string()))?;
    }
    Ok(answer)
}

/// The text of an error with its causes: a failed request of `reqwest` names the connection's failure only there.
pub(crate) fn because(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// A text as a segment of a path or as a value of a query.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A path with parameters: those without a value are left out.
pub fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        out.push(if out.contains('?') { '&' } else { '?' });
        out.push_str(&format!("{key}={}", escape(value)));
    }
    out
}

/// The text of a JSON string, empty for anything else.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The first eight characters of an id: enough for people.
pub fn short(value: &Value) -> &str {
    let id = text(value);
    id.get(..8).unwrap_or(id)
}
