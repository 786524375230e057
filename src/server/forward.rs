//! Requests that go from server to server: what this one passes on to the leader, and what others pass on to it.
//! Which requests those are, and when one is asked again, is `api`'s business.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::response::Response;
use songline_api::{Api, Leader, Limits, PassFailure, ProposeError, Shared, serve_passed, serve_relayed};
use songline_rpc::port::Conn;
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::passing::{PassError, Passing};

/// The connections to other servers, and what answering their requests shares.
pub(super) struct Forward {
    passing: Passing,
    shared: OnceLock<Shared<Core>>,
}

impl Forward {
    /// Reaches other servers by `passing`.
    pub(super) fn new(passing: Passing) -> Self {
        Self { passing, shared: OnceLock::new() }
    }
}

/// Answers requests that another server passes on, until the connection ends or this server goes down.
pub async fn accept(core: Arc<Core>, conn: Conn, from: SocketAddr) {
    let (api, closing) = answering(core);
    serve_passed(conn, from, api, &Limits::default(), closing).await;
}

/// As `accept`, for requests that the agent of a node passes on. The agent proves nothing, so they count as those of any caller.
pub async fn accept_of_node(core: Arc<Core>, conn: Conn, from: SocketAddr) {
    let (api, closing) = answering(core);
    serve_relayed(conn, from, api, &Limits::default(), closing).await;
}

fn answering(core: Arc<Core>) -> (Api<Core>, CancellationToken) {
    let shared = core.forward.shared.get_or_init(|| Shared::of(&*core)).clone();
    let closing = core.shutdown_token().clone();
    (Api::with(core, shared), closing)
}

impl Core {
    /// Who leads, and where.
    pub(super) fn leader(&self) -> Leader {
        if self.disk_trouble().is_some() {
            // Nobody tells this server by the way of consensus.
            return self.leader_by_hearsay().map_or(Leader::Nobody, |address| Leader::At(address.into()));
        }
        let now = *self.log().leadership().borrow();
        if now.is_leader {
            return Leader::Here;
        }
        let members = self.log().members();
        let members = members.borrow();
        match now.leader.and_then(|id| members.addresses.get(&id)) {
            Some(address) => Leader::At(address.as_str().into()),
            None => Leader::Nobody,
        }
    }

    /// Returns once that is another than `known`.
    pub(super) async fn leader_other_than(&self, known: &Leader) {
        let (mut leadership, mut members) = (self.log().leadership(), self.log().members());
        let (mut failures, mut hearsay) = (self.log().failures(), self.cluster.hearsay());
        while self.leader() == *known {
            tokio::select! {
                Ok(()) = leadership.changed() => {}
                Ok(()) = members.changed() => {}
                Ok(()) = failures.changed() => {}
                Ok(()) = hearsay.changed() => {}
                // The log is closed: nothing changes any more.
                else => std::future::pending().await,
            }
        }
    }

    /// Returns once this leader may judge by its view: what leaders before it acknowledged is applied, and its reign has begun.
    pub(super) async fn ready_to_lead(&self) -> Result<(), ProposeError> {
        if self.reign().is_some() {
            return Ok(());
        }
        let mut reign = self.reign.subscribe();
        tokio::select! {
            Ok(_) = reign.wait_for(Option::is_some) => Ok(()),
            () = self.leader_other_than(&Leader::Here) => Err(ProposeError::NoLeader),
        }
    }

    /// Sends a request to the server whose port is at `address`.
    pub(super) async fn pass_on(&self, address: &str, request: Request) -> Result<Response, PassFailure> {
        self.forward.passing.pass(address, request).await.map_err(|error| match error {
            PassError::NotSent { request, why } => PassFailure::NotSent { request, why },
            PassError::Lost(why) => PassFailure::Lost(why),
        })
    }
}

#[cfg(test)]
mod tests;
