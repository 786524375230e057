//! HTTP requests to simulated servers. They go to the API as they would over a connection; what travels is late, or
//! lost with the server.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use bytes::Bytes;

use super::network::Network;
use super::server::Host;

/// Longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Header with the secret of a caller's token.
const TOKEN_HEADER: &str = "x-nomad-token";

/// An answer: status and body.
pub type Answer = (u16, Bytes);

/// Asks the server on a machine. `None`: no answer came, and the request may have taken effect.
/// The secret is that of the caller's token, if it shows one; the request is a method and a path.
pub async fn ask(
    network: &Network,
    host: &Host,
    secret: Option<&str>,
    (method, path): (&str, &str),
    body: String,
) -> Option<Answer> {
    tokio::time::sleep(network.passage_surely()).await;
    let life = host.life()?;
    let mut request = Request::builder().method(method).uri(path);
    if let Some(secret) = secret {
        request = request.header(TOKEN_HEADER, secret);
    }
    let request = request.body(Body::from(body)).ok()?;
    // The server goes on when nobody waits for its answer any more.
    let api = life.api.clone();
    let asked = tokio::spawn(async move {
        let answer = api.answer(request).await;
        let status = answer.status().as_u16();
        to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.ok().map(|body| (status, body))
    });
    let answer = tokio::time::timeout(ANSWER_WITHIN, asked).await.ok()?.ok()??;
    if !life.lives() {
        return None;
    }
    tokio::time::sleep(network.passage_surely()).await;
    Some(answer)
}
