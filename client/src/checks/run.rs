//! Runs of checks: one HTTP request or one TCP connection each. The texts of outcomes are those that users know from
//! Nomad, which has them from Go.

use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use songline_model::{Str, with_sources};
use tokio::net::TcpStream;

use crate::core::{CheckOutcome, CheckPlan, CheckRequest, CheckVerdict};

/// Largest output, in bytes.
const OUTPUT_BYTES_MAX: usize = 3 << 10;
/// This machine, for addresses without a host.
const HERE: &str = "127.0.0.1";

/// Runs checks. Clones share one HTTP client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    client: Arc<OnceLock<Result<Client, String>>>,
}

impl Runs {
    /// Runs a check once. Returns after the check's timeout at the latest.
    pub async fn run(&self, plan: &CheckPlan) -> CheckOutcome {
        let timeout = plan.timeout.to_std();
        match &plan.request {
            CheckRequest::Impossible(reason) => failed(reason.clone()),
            CheckRequest::AtConsul => failed("Consul runs this check"),
            CheckRequest::Tcp { address } => match tokio::time::timeout(timeout, connect(address)).await {
                Ok(outcome) => outcome,
                Err(_) => failed(format!("dial tcp {address}: i/o timeout")),
            },
            CheckRequest::Http { method, url, headers, body } => {
                let asked = self.ask(method, url, headers, body);
                match tokio::time::timeout(timeout, asked).await {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(reason)) => failed(format!("nomad: {} \"{url}\": {reason}", title(method))),
                    Err(_) => failed(format!("nomad: {} \"{url}\": context deadline exceeded", title(method))),
                }
            }
        }
    }

    async fn ask(&self, method: &str, url: &str, headers: &[(Str, Str)], body: &Str) -> Result<CheckOutcome, String> {
        let client = self.client.get_or_init(client).as_ref().map_err(Clone::clone)?;
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("invalid method {method:?}"))?;
        let reachable = url.replacen("://:", &format!("://{HERE}:"), 1);
        let mut request = client.request(method, reachable).headers(header_map(headers)?);
        if !body.is_empty() {
            request = request.body(body.to_string());
        }
        let answer = request.send().await.map_err(|error| reason(&error))?;
        let status = answer.status();
        // 304 is no redirect: HTTP clients follow no location beside it.
        let redirects = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
        if let Some(to) = answer.headers().get(LOCATION).filter(|_| redirects) {
            return Err(format!("redirect to {to:?} is not followed"));
        }
        let output = match status.as_u16() {
            200 => "nomad: http ok".into(),
            _ => beginning(answer).await,
        };
        let verdict = if status.as_u16() < 400 { CheckVerdict::Passed } else { CheckVerdict::Failed };
        Ok(CheckOutcome { verdict, code: Some(status.as_u16()), output })
    }
}

/// A client without connections that outlive a request: a check tells whether a new one can be made.
fn client() -> Result<Client, String> {
    let client = crate::tls::http_client().no_proxy().pool_max_idle_per_host(0).http1_only().http1_title_case_headers();
    client.user_agent(concat!("songline/", env!("CARGO_PKG_VERSION"))).build().map_err(|error| with_sources(&error))
}

fn header_map(headers: &[(Str, Str)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let invalid = || format!("invalid header field {:?}", name.as_str());
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        map.append(key, HeaderValue::from_str(value).map_err(|_| invalid())?);
    }
    Ok(map)
}

/// The first bytes of an answer's body; fewer when the connection ends.
async fn beginning(answer: Response) -> Str {
    let mut bytes = Vec::new();
    let mut body = answer.bytes_stream();
    while let Some(Ok(piece)) = body.next().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() >= OUTPUT_BYTES_MAX {
            break;
        }
    }
    bytes.truncate(OUTPUT_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned().into()
}

async fn connect(address: &str) -> CheckOutcome {
    let reachable = if address.starts_with(':') { format!("{HERE}{address}") } else { address.to_owned() };
    match TcpStream::connect(reachable).await {
        Ok(_) => CheckOutcome { verdict: CheckVerdict::Passed, code: None, output: "nomad: tcp ok".into() },
        Err(error) => failed(dial(address, &error)),
    }
}

/// Reason why a request got no answer.
fn reason(error: &reqwest::Error) -> String {
    let Some(source) = error.source() else { return error.to_string() };
    match (found::<rustls::Error>(source), found::<io::Error>(source)) {
        (Some(rustls::Error::InvalidMessage(_)), _) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        (Some(refused), _) => format!("tls: failed to verify certificate: {refused}"),
        (None, Some(failure)) if error.is_connect() => {
            let url = error.url();
            let host = url.and_then(|url| url.host_str()).unwrap_or_default();
            let port = url.and_then(reqwest::Url::port_or_known_default).unwrap_or_default();
            dial(&format!("{host}:{port}"), failure)
        }
        (None, _) => with_sources(source),
    }
}

/// The first cause of this type. An error of the system may have a cause inside that is not its source.
fn found<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let inside = || error.downcast_ref::<io::Error>()?.get_ref().and_then(|inside| found::<E>(inside));
    error.downcast_ref::<E>().or_else(inside).or_else(|| error.source().and_then(found::<E>))
}

fn dial(address: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("dial tcp {address}: connect: {}", system_text(number)),
        // The resolver's errors have no number.
        None => {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            format!("dial tcp: lookup {host}: {error}")
        }
    }
}

/// The system's text of an error, in Go's spelling.
fn system_text(number: i32) -> String {
    let text = io::Error::from_raw_os_error(number).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// A method with a capital first letter only.
fn title(method: &str) -> String {
    let mut letters = method.chars();
    letters.next().map(|first| first.to_string() + &letters.as_str().to_lowercase()).unwrap_or_default()
}

fn failed(output: impl Into<Str>) -> CheckOutcome {
    CheckOutcome { verdict: CheckVerdict::Failed, code: None, output: output.into() }
}
