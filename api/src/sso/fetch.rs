//! What is asked of the world outside of the cluster, as a trait that the shell implements.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use songline_model::Secret;

/// One request.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Where to; `http` or `https`.
    pub url: String,
    /// What is posted, as a form. `None`: nothing, this is a `GET`.
    pub form: Option<Form>,
    /// Who asks.
    pub credentials: Credentials,
    /// The only certificates that are trusted, in PEM. None means those that the system trusts.
    pub ca_pem: Vec<String>,
    /// Longest answer that is read, in bytes.
    pub bytes_max: usize,
}

/// A form, already encoded. It may hold secrets, so it does not print.
#[derive(Clone)]
pub struct Form(pub String);

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Form(..)")
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// Nobody in particular.
    None,
    /// A client with a name and a secret, both already encoded for a form.
    Basic(String, Secret),
    /// Whoever has this token.
    Bearer(Secret),
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Nobody listens there, or TLS does not come about.
    #[error("dial tcp {0}")]
    Connect(String),
    /// It took too long.
    #[error("context deadline exceeded")]
    Timeout,
    /// The answer is longer than it may be.
    #[error("answer is longer than {0} bytes")]
    TooLong(usize),
    /// The request cannot be made, or the connection broke.
    #[error("{0}")]
    Failed(String),
}

/// An answer, some time.
pub type FetchFuture<'a> = BoxFuture<'a, Result<Fetched, FetchError>>;

/// Asks others over HTTP. Redirections are not followed, every wait has an end, and no more is read than was asked for.
pub trait Fetch: Send + Sync + 'static {
    /// The answer to one request, whatever its status.
    fn fetch(&self, outgoing: Outgoing) -> FetchFuture<'_>;
}

impl Outgoing {
    /// A `GET` without credentials.
    pub(super) fn get(url: &str, ca_pem: &[String], bytes_max: usize) -> Self {
        Self { url: url.to_owned(), form: None, credentials: Credentials::None, ca_pem: ca_pem.to_vec(), bytes_max }
    }
}

/// The body of a 200; anything else as a text that names the request.
pub(super) async fn body_of(fetch: &dyn Fetch, outgoing: Outgoing) -> Result<Bytes, String> {
    let verb = if outgoing.form.is_some() { "Post" } else { "Get" };
    let url = outgoing.url.clone();
    let fetched = fetch.fetch(outgoing).await.map_err(|error| format!("{verb} {url:?}: {error}"))?;
    if fetched.status == 200 {
        return Ok(fetched.body);
    }
    Err(format!("{verb} {url:?}: unexpected status {}: {}", fetched.status, shown(&fetched.body)))
}

/// The beginning of somebody's text, for an error.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(1024)]);
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(200).collect::<String>().trim().to_owned()
}
