//! Request forwarding: HTTP requests to other agents over their one port, with kept connections, bodies that stream
//! both ways, and upgrades. The caller chooses the target and decides about retries.

mod body;
mod headers;
mod pool;

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use songline_rpc::port::{Dialer, FirstByte};

use body::Lent;
use pool::{Pool, Sender};

/// Connect timeout: short, so that the caller can try another server in time.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Longest wait until a kept connection has finished its last request.
const READY_WITHIN: Duration = Duration::from_millis(100);

/// Reasons why a forwarded request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No connection could be made, so no part of the request was sent.
    #[error("{why}")]
    NotSent {
        /// The complete request.
        request: Box<Request<Body>>,
        /// Reason of the failure.
        why: String,
    },
    /// The connection broke after the request may have been sent: its effects may or may not have happened.
    #[error("{0}")]
    Lost(String),
}

/// Forwards requests. Clones share the connections.
#[derive(Clone)]
pub struct Forwarder {
    dialer: Dialer,
    first: FirstByte,
    pool: Pool,
}

impl Forwarder {
    /// Forwarder from one server to another.
    pub(crate) fn of_server(dialer: Dialer) -> Self {
        Self { dialer, first: FirstByte::Http, pool: Pool::default() }
    }

    /// Forwarder of an agent without a server. Servers trust nothing about such a request but the token that its
    /// caller shows.
    pub fn of_node(dialer: Dialer) -> Self {
        Self { dialer, first: FirstByte::HttpOfNodes, pool: Pool::default() }
    }

    /// Sends a request to the agent whose port is at `address` and returns the answer with its headers and a
    /// streaming body. Dropping the future or the body closes the connection and so aborts the request.
    pub async fn pass(&self, address: &str, mut request: Request<Body>) -> Result<Response<Body>, ForwardError> {
        let upgrade = headers::for_sending(&mut request);
        if let Some(mut sender) = self.kept(address).await {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.answer(address, sender, response, upgrade)),
                Err(mut failed) => {
                    // The other kept connections are as old as this one and probably dead, too.
                    self.pool.forget(address);
                    request =
                        failed.take_message().ok_or_else(|| ForwardError::Lost(failed.into_error().to_string()))?;
                }
            }
        }
        let not_sent = |request, why| ForwardError::NotSent { request: Box::new(request), why };
        let mut sender = match self.connect(address).await {
            Ok(sender) => sender,
            Err(error) => return Err(not_sent(request, error.to_string())),
        };
        match sender.try_send_request(request).await {
            Ok(response) => Ok(self.answer(address, sender, response, upgrade)),
            Err(mut failed) => match failed.take_message() {
                Some(request) => Err(not_sent(request, failed.into_error().to_string())),
                None => Err(ForwardError::Lost(failed.into_error().to_string())),
            },
        }
    }

    /// A kept idle connection to `address`, if there is one.
    async fn kept(&self, address: &str) -> Option<Sender> {
        let mut sender = self.pool.take(address)?;
        let ready = tokio::time::timeout(READY_WITHIN, sender.ready()).await;
        matches!(ready, Ok(Ok(()))).then_some(sender)
    }

    async fn connect(&self, address: &str) -> std::io::Result<Sender> {
        let dial = self.dialer.connect(address, self.first);
        let conn = tokio::time::timeout(CONNECT_WITHIN, dial)
            .await
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(conn)).await.map_err(std::io::Error::other)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::trace!(%error, "a connection to another agent ended early");
            }
        });
        Ok(sender)
    }

    fn answer(
        &self,
        address: &str,
        sender: Sender,
        mut response: Response<hyper::body::Incoming>,
        upgrade: Option<OnUpgrade>,
    ) -> Response<Body> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(ours) = upgrade else {
                return (StatusCode::BAD_GATEWAY, "another protocol, which nobody asked for").into_response();
            };
            let theirs = hyper::upgrade::on(&mut response);
            tokio::spawn(join(ours, theirs));
            return response.map(|_| Body::empty());
        }
        headers::of_answer(response.headers_mut());
        response.map(|incoming| Body::new(Lent::new(incoming, self.pool.clone(), address, sender)))
    }
}

/// Copies between two upgraded connections until both directions have ended.
async fn join(ours: OnUpgrade, theirs: OnUpgrade) {
    let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) else { return };
    // Errors belong to the upgraded protocol; its two ends handle them.
    let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await;
}

#[cfg(test)]
mod tests;
