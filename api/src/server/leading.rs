//! The leader of the cluster, and forwarding of requests to it.

use std::future::Future;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;

use super::{Agent, ProposeError};

/// The leader, and the way to it.
pub trait Leading: Agent {
    /// The leader, as far as this server knows: it answers the requests that only the leader may answer.
    fn leader(&self) -> Leader {
        Leader::Here
    }

    /// Returns once [`Self::leader`] differs from `known`.
    fn leader_other_than(&self, known: &Leader) -> impl Future<Output = ()> + Send {
        let _ = known;
        std::future::pending()
    }

    /// Returns once this leader may judge writes by its view: the view holds all entries that earlier leaders
    /// acknowledged.
    fn ready_to_lead(&self) -> impl Future<Output = Result<(), ProposeError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Forwards a request to the server whose server port is at `address`, and returns that server's response.
    fn pass_on(&self, address: &str, request: Request) -> impl Future<Output = Result<Response, PassFailure>> + Send {
        let why = format!("{address} cannot be reached from here");
        std::future::ready(Err(PassFailure::NotSent { request: Box::new(request), why }))
    }

    /// Returns when the leader at `address` no longer answers this server's greetings, though its own messages may
    /// still arrive here.
    fn leader_is_deaf(&self, address: &str) -> impl Future<Output = ()> + Send {
        let _ = address;
        std::future::pending()
    }

    /// Reason why this server cannot lead: a disk failure. `None` while the disk works. Requests that found no leader
    /// report it.
    fn disk_trouble(&self) -> Option<String> {
        None
    }
}

/// The leader, as far as a server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// The server itself is the leader.
    Here,
    /// Another server, whose server port is at this `host:port`.
    At(Arc<str>),
    /// No leader is known.
    Unknown,
}

/// Failure of request forwarding.
#[derive(Debug, thiserror::Error)]
pub enum PassFailure {
    /// No byte of the request was sent, so it may be sent again.
    #[error("{why}")]
    NotSent {
        /// The unsent request, complete.
        request: Box<Request>,
        /// The reason.
        why: String,
    },
    /// The request may have been sent, and its write may or may not have happened.
    #[error("{0}")]
    Lost(String),
}
