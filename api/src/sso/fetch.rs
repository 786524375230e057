//! HTTP requests to servers outside of the cluster, as a trait that the shell implements.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use songline_model::Secret;

/// A request.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// URL; `http` or `https`.
    pub url: String,
    /// Encoded form that is posted. `None`: the request is a `GET`.
    pub form: Option<Form>,
    /// Credentials of the client.
    pub credentials: Credentials,
    /// The only trusted certificates, in PEM. When empty, those of the system are trusted.
    pub ca_pem: Vec<String>,
    /// Largest response body that is read, in bytes.
    pub bytes_max: usize,
}

/// An encoded form. It may hold secrets, so it does not print.
#[derive(Clone)]
pub struct Form(pub String);

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Form(..)")
    }
}

/// Credentials of a request.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// No credentials.
    None,
    /// Client id and secret, both already encoded for a form.
    Basic(String, Secret),
    /// A bearer token.
    Bearer(Secret),
}

/// A response.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
}

/// Failure of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The connection or the TLS handshake failed.
    #[error("dial tcp {0}")]
    Connect(String),
    /// The timeout has passed.
    #[error("context deadline exceeded")]
    Timeout,
    /// The response body exceeds the bound in bytes.
    #[error("answer is longer than {0} bytes")]
    TooLong(usize),
    /// The request is malformed, or the connection broke.
    #[error("{0}")]
    Failed(String),
}

/// Future of a response.
pub type FetchFuture<'a> = BoxFuture<'a, Result<Fetched, FetchError>>;

/// HTTP client. It follows no redirects, every wait has a timeout, and it reads no more than [`Outgoing::bytes_max`].
pub trait Fetch: Send + Sync + 'static {
    /// Response to one request, whatever its status.
    fn fetch(&self, outgoing: Outgoing) -> FetchFuture<'_>;
}

impl Outgoing {
    /// A `GET` without credentials.
    pub(super) fn get(url: &str, ca_pem: &[String], bytes_max: usize) -> Self {
        Self { url: url.to_owned(), form: None, credentials: Credentials::None, ca_pem: ca_pem.to_vec(), bytes_max }
    }
}

/// Body of a response with status 200; for other statuses an error that names the request.
pub(super) async fn body_of(fetch: &dyn Fetch, outgoing: Outgoing) -> Result<Bytes, String> {
    let verb = if outgoing.form.is_some() { "Post" } else { "Get" };
    let url = outgoing.url.clone();
    let fetched = fetch.fetch(outgoing).await.map_err(|error| format!("{verb} {url:?}: {error}"))?;
    if fetched.status == 200 {
        return Ok(fetched.body);
    }
    Err(format!("{verb} {url:?}: unexpected status {}: {}", fetched.status, shown(&fetched.body)))
}

/// Beginning of a foreign text, for an error.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(1024)]);
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(200)
        .collect::<String>()
        .trim()
        .to_owned()
}
