//! Requests of a server to hosts outside of the cluster: identity providers and their keys.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use songline_api::sso::{Credentials, Fetch, FetchError, FetchFuture, Fetched, Outgoing};
use songline_client::tls;
use songline_model::with_sources;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Client for HTTP and HTTPS.
#[derive(Default)]
pub(crate) struct HttpFetch {
    /// Client with the system's CA certificates. Clients with other CA certificates are created for each use.
    system: OnceLock<reqwest::Client>,
}

impl Fetch for HttpFetch {
    fn fetch(&self, outgoing: Outgoing) -> FetchFuture<'_> {
        Box::pin(async move {
            let client = self.client(&outgoing.ca_pem)?;
            send(&client, outgoing).await
        })
    }
}

impl HttpFetch {
    fn client(&self, ca_pem: &[String]) -> Result<reqwest::Client, FetchError> {
        if !ca_pem.is_empty() {
            let builder = tls::http_client_trusting(ca_pem).map_err(|error| FetchError::Failed(error.to_string()))?;
            return build(builder);
        }
        if let Some(client) = self.system.get() {
            return Ok(client.clone());
        }
        let client = build(tls::http_client())?;
        Ok(self.system.get_or_init(|| client).clone())
    }
}

/// Builds a client that does not follow redirects: the configuration alone decides which host receives a secret.
fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, FetchError> {
    let bounded =
        builder.connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT).redirect(reqwest::redirect::Policy::none());
    bounded.build().map_err(|error| FetchError::Failed(with_sources(&error)))
}

async fn send(client: &reqwest::Client, outgoing: Outgoing) -> Result<Fetched, FetchError> {
    let Outgoing { url, form, credentials, ca_pem: _, bytes_max } = outgoing;
    let mut request = match form {
        Some(form) => client.post(&url).header("content-type", "application/x-www-form-urlencoded").body(form.0),
        None => client.get(&url),
    };
    request = match credentials {
        Credentials::None => request,
        Credentials::Basic(name, secret) => request.basic_auth(name, Some(secret.reveal())),
        Credentials::Bearer(token) => request.bearer_auth(token.reveal()),
    };
    let mut response = request.header("accept", "application/json").send().await.map_err(failure)?;
    let status = response.status().as_u16();
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(failure)? {
        if body.len() + piece.len() > bytes_max {
            return Err(FetchError::TooLong(bytes_max));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Fetched { status, body: Bytes::from(body) })
}

/// Error text without the address: the caller adds it.
fn failure(error: reqwest::Error) -> FetchError {
    let error = error.without_url();
    if error.is_timeout() {
        FetchError::Timeout
    } else if error.is_connect() {
        FetchError::Connect(innermost(&error))
    } else {
        FetchError::Failed(with_sources(&error))
    }
}

fn innermost(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
