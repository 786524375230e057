//! A server in memory among several: the leader, the connections to the others, and their failures.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use songline_api::http::Api;
use songline_api::{Agent, Contact, Leader, Limits, PassFailure, ProposeError, Written, serve_passed};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::server::Memory;

/// A failure that happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No failure: the request arrives.
    None,
    /// The other server cannot be reached.
    Refused,
    /// The connection breaks after the request was sent and before it arrives.
    CutBefore,
    /// The other server handles the request, and its answer is lost.
    CutAfter,
    /// The other server gets the request and never answers.
    Hangs,
    /// Leadership is lost during a write, which is not in the log.
    LostBefore,
    /// Leadership is lost during a write, which is in the log.
    LostAfter,
}

/// A server among others.
pub struct Place {
    leader: watch::Sender<Leader>,
    others: Mutex<BTreeMap<String, Weak<Memory>>>,
    /// Names of servers by region.
    regions: Mutex<BTreeMap<String, Vec<String>>>,
    faults: Mutex<VecDeque<Fault>>,
    contact: Mutex<Duration>,
    /// Number of requests that this server has forwarded.
    pub passed: Mutex<usize>,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            leader: watch::Sender::new(Leader::Here),
            others: Mutex::default(),
            regions: Mutex::default(),
            faults: Mutex::default(),
            contact: Mutex::default(),
            passed: Mutex::default(),
        }
    }
}

impl Place {
    pub fn follow(&self, leader: Leader) {
        self.leader.send_replace(leader);
    }

    pub fn knows(&self, name: &str, other: &Arc<Memory>) {
        self.others.lock().insert(name.to_owned(), Arc::downgrade(other));
    }

    /// Makes a server of another region known.
    pub fn knows_region(&self, region: &str, other: &Arc<Memory>) {
        self.knows(region, other);
        self.regions.lock().entry(region.to_owned()).or_default().push(region.to_owned());
    }

    pub fn servers_of_region(&self, region: &str) -> Vec<String> {
        self.regions.lock().get(region).cloned().unwrap_or_default()
    }

    pub fn fails(&self, fault: Fault) {
        self.faults.lock().push_back(fault);
    }

    /// Sets the time since the last contact with the leader.
    pub fn last_heard(&self, ago: Duration) {
        *self.contact.lock() = ago;
    }

    pub fn leader(&self) -> Leader {
        self.leader.borrow().clone()
    }

    pub async fn leader_other_than(&self, known: &Leader) {
        self.leader.subscribe().wait_for(|leader| leader != known).await.expect("the place is there");
    }

    pub fn contact(&self) -> Contact {
        Contact { known_leader: self.leader() != Leader::Unknown, last_contact: *self.contact.lock() }
    }

    fn fault(&self, among: &[Fault]) -> Option<Fault> {
        let mut faults = self.faults.lock();
        let next = faults.front().copied().filter(|fault| among.contains(fault))?;
        faults.pop_front();
        Some(next)
    }

    pub fn propose(&self, apply: impl FnOnce() -> Result<Written, ProposeError>) -> Result<Written, ProposeError> {
        if self.leader() != Leader::Here {
            return Err(ProposeError::NoLeader);
        }
        match self.fault(&[Fault::LostBefore, Fault::LostAfter]) {
            None => apply(),
            Some(fault) => {
                if fault == Fault::LostAfter {
                    apply()?;
                }
                self.follow(Leader::Unknown);
                Err(ProposeError::OutcomeUnknown("leadership was lost before the outcome was known".to_owned()))
            }
        }
    }

    pub fn pass_on(&self, address: &str, request: Request) -> BoxFuture<'static, Result<Response, PassFailure>> {
        let fault = self.fault(&[Fault::None, Fault::Refused, Fault::CutBefore, Fault::CutAfter, Fault::Hangs]);
        let other = self.others.lock().get(address).and_then(Weak::upgrade).filter(|_| fault != Some(Fault::Refused));
        *self.passed.lock() += usize::from(other.is_some());
        Box::pin(sent(other, fault, request))
    }
}

async fn sent(other: Option<Arc<Memory>>, fault: Option<Fault>, request: Request) -> Result<Response, PassFailure> {
    let Some(other) = other else {
        return Err(PassFailure::NotSent { request: Box::new(request), why: "connection refused".to_owned() });
    };
    match fault {
        Some(Fault::CutBefore) => return Err(PassFailure::Lost("connection reset".to_owned())),
        Some(Fault::Hangs) => std::future::pending().await,
        _ => {}
    }
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let shutdown = other.shutdown().clone();
    tokio::spawn(serve(theirs, Api::new(other), shutdown));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.expect("speaks");
    tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    if fault == Some(Fault::CutAfter) {
        return Err(PassFailure::Lost("connection reset".to_owned()));
    }
    answer.map(|answer| answer.map(Body::new)).map_err(|error| PassFailure::Lost(error.to_string()))
}

fn serve(stream: tokio::io::DuplexStream, api: Api<Memory>, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let (conn, from) = (Box::new(stream), (Ipv4Addr::LOCALHOST, 1).into());
        serve_passed(conn, from, Arc::new(api), &Limits::default(), shutdown).await;
    })
}
