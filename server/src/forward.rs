//! Request forwarding between servers: from this server to the leader, and from other servers to this one.
//! `api` decides about the requests to forward and about retries.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::response::Response;
use songline_api::{Answer, Api, Leader, Limits, PassFailure, ProposeError, Shared, serve_passed, serve_relayed};
use songline_rpc::port::Conn;
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::forwarding::{ForwardError, Forwarder};

/// Connections to other servers, and the shared parts of answering their requests.
pub(super) struct Forward {
    forwarder: Forwarder,
    shared: OnceLock<Shared<Core>>,
}

impl Forward {
    /// Forwards to other servers through `forwarder`.
    pub(super) fn new(forwarder: Forwarder) -> Self {
        Self { forwarder, shared: OnceLock::new() }
    }
}

/// Answers requests that another server forwards, until the connection ends or this server shuts down.
pub(super) async fn accept(core: Arc<Core>, conn: Conn, from: SocketAddr) {
    let (api, closing) = answering(core);
    serve_passed(conn, from, api, &Limits::default(), closing).await;
}

/// Like `accept`, for requests that a node's agent forwards. The agent is not authenticated, so they count as any
/// caller's requests.
pub(super) async fn accept_of_node(core: Arc<Core>, conn: Conn, from: SocketAddr) {
    let (api, closing) = answering(core);
    serve_relayed(conn, from, api, &Limits::default(), closing).await;
}

fn answering(core: Arc<Core>) -> (Arc<dyn Answer>, CancellationToken) {
    let shared = core.connections.forward.shared.get_or_init(|| Shared::of(&*core)).clone();
    let closing = core.shutdown_token().clone();
    (Arc::new(Api::with(core, shared)), closing)
}

impl Core {
    /// The leader and its address.
    pub(super) fn leader(&self) -> Leader {
        if self.disk_trouble().is_some() {
            // Without a part in consensus this server learns of the leader by greetings only.
            return self
                .connections
                .cluster
                .leader_of_others()
                .map_or(Leader::Unknown, |address| Leader::At(address.into()));
        }
        let now = *self.log().leadership().borrow();
        if now.is_leader {
            return Leader::Here;
        }
        let members = self.log().members();
        let members = members.borrow();
        match now.leader.and_then(|id| members.addresses.get(&id)) {
            Some(address) => Leader::At(address.as_str().into()),
            None => Leader::Unknown,
        }
    }

    /// Returns once the leader differs from `known`.
    pub(super) async fn leader_other_than(&self, known: &Leader) {
        // All four are subscribed before the first look: a change between look and wait is not missed.
        let (mut leadership, mut members) = (self.log().leadership(), self.log().members());
        let (mut failures, mut hearsay) = (self.log().failures(), self.connections.cluster.hearsay());
        while self.leader() == *known {
            tokio::select! {
                Ok(()) = leadership.changed() => {}
                Ok(()) = members.changed() => {}
                Ok(()) = failures.changed() => {}
                Ok(()) = hearsay.changed() => {}
                // The log is closed: leadership does not change any more.
                else => std::future::pending().await,
            }
        }
    }

    /// Returns once this leader may answer from its view: every entry that earlier leaders acknowledged is applied,
    /// and this leadership term is ready.
    pub(super) async fn ready_to_lead(&self) -> Result<(), ProposeError> {
        if self.term().is_some() {
            return Ok(());
        }
        let mut term = self.leader.term.subscribe();
        tokio::select! {
            Ok(_) = term.wait_for(Option::is_some) => Ok(()),
            () = self.leader_other_than(&Leader::Here) => Err(ProposeError::NoLeader),
        }
    }
}

impl Forward {
    /// Sends a request to the server whose port is at `address`.
    pub(super) async fn pass_on(&self, address: &str, request: Request) -> Result<Response, PassFailure> {
        self.forwarder.pass(address, request).await.map_err(|error| match error {
            ForwardError::NotSent { request, why } => PassFailure::NotSent { request, why },
            ForwardError::Lost(why) => PassFailure::Lost(why),
        })
    }
}

#[cfg(test)]
mod tests;
