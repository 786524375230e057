//! Webhooks: each delivery is one POST of JSON lines. A success status means that the receiver has them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use ring::hmac;
use songline_client::tls;
use songline_model::{EventSink, Secret, with_sources};
use songline_server::event_sinks::{Delivering, DeliveryError, Parcel, Receiver};

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The client for all webhooks. It follows no redirect: the sink alone names the host that gets events and headers.
pub(super) fn client() -> anyhow::Result<Client> {
    let bounded = tls::http_client().connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT);
    Ok(bounded.redirect(reqwest::redirect::Policy::none()).build()?)
}

/// A webhook.
pub(super) struct Webhook {
    http: Client,
    url: Url,
    name: String,
    run: u64,
    headers: HeaderMap,
    secret: Secret,
}

impl Webhook {
    pub(super) fn new(http: Client, sink: &EventSink, run: u64) -> Result<Self, DeliveryError> {
        let url =
            Url::parse(&sink.address).map_err(|error| DeliveryError(format!("the address is no URL: {error}")))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &sink.headers {
            let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value.reveal()).ok());
            let (name, value) = header.ok_or_else(|| DeliveryError(format!("header {name:?} is invalid")))?;
            headers.insert(name, value);
        }
        Ok(Self { http, url, name: sink.id.to_string(), run, headers, secret: sink.secret.clone() })
    }

    async fn post(&self, parcel: &Parcel) -> Result<(), DeliveryError> {
        let body = body(parcel);
        let at = parcel.at.secs().to_string();
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        let mut request = self
            .http
            .post(self.url.clone())
            .headers(headers)
            .header("X-Songline-Sink", &self.name)
            .header("X-Songline-Index", parcel.last())
            .header("X-Songline-Timestamp", &at)
            .header("Idempotency-Key", format!("{}-{}-{}-{}", self.name, self.run, parcel.first(), parcel.last()));
        if !self.secret.is_empty() {
            request = request.header("X-Songline-Signature", signature(&self.secret, &at, &body));
        }
        let sent = request.body(body).send().await;
        let response = sent.map_err(|error| DeliveryError(with_sources(&error.without_url())))?;
        // The answer's text stays out of the error: it may repeat a header, and errors are shown.
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(DeliveryError(format!("the receiver answered {status}"))),
        }
    }
}

impl Receiver for Webhook {
    fn deliver<'a>(&'a mut self, parcel: &'a Parcel) -> Delivering<'a> {
        Box::pin(self.post(parcel))
    }
}

/// The lines of all frames.
pub(super) fn body(parcel: &Parcel) -> Bytes {
    if let [only] = &parcel.frames[..] {
        return only.line.clone();
    }
    let mut body = BytesMut::with_capacity(parcel.frames.iter().map(|frame| frame.line.len()).sum());
    parcel.frames.iter().for_each(|frame| body.extend_from_slice(&frame.line));
    body.freeze()
}

/// `v1=` and the HMAC-SHA256, in hex, of the timestamp, a dot and the body.
fn signature(secret: &Secret, at: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(at.as_bytes());
    context.update(b".");
    context.update(body);
    let digits: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `printf '1700000000.{}\n' | openssl dgst -sha256 -hmac s3cret`.
    #[test]
    fn signature_is_the_hmac_of_timestamp_and_body() {
        assert_eq!(
            signature(&Secret::new("s3cret"), "1700000000", b"{}\n"),
            "v1=6241e3c9140d64151b9410040f94cb1a0ba027fae9e9457e5990d85e0bb80d0a"
        );
    }
}
