//! Deliveries to the workers of other servers, by session: a session that ends gives its deliveries back at once, long
//! before their timeout.

use std::collections::BTreeSet;
use std::sync::Weak;

use parking_lot::Mutex;
use songline_model::EvalId;
use songline_rpc::yamux::Session;
use songline_scheduler::broker::Token;

use crate::Core;

/// Deliveries that workers of other servers have.
#[derive(Default)]
pub(crate) struct Leases(Mutex<Vec<Lease>>);

struct Lease {
    session: Session,
    held: BTreeSet<(EvalId, Token)>,
}

impl Leases {
    /// Notes a delivery. Returns whether it is the first of its session.
    fn add(&self, session: &Session, id: EvalId, token: Token) -> bool {
        let mut leases = self.0.lock();
        if let Some(lease) = leases.iter_mut().find(|lease| lease.session.is(session)) {
            lease.held.insert((id, token));
            return false;
        }
        leases.push(Lease { session: session.clone(), held: [(id, token)].into() });
        true
    }

    /// Forgets a delivery that its worker has answered.
    pub(crate) fn remove(&self, id: EvalId, token: Token) {
        for lease in self.0.lock().iter_mut() {
            lease.held.remove(&(id, token));
        }
    }

    /// Forgets a session and returns its deliveries.
    fn end(&self, session: &Session) -> BTreeSet<(EvalId, Token)> {
        let mut leases = self.0.lock();
        let at = leases.iter().position(|lease| lease.session.is(session));
        at.map(|at| leases.swap_remove(at).held).unwrap_or_default()
    }
}

impl Core {
    /// Notes a delivery to a worker behind `session`, and takes it back when the session ends.
    pub(crate) fn lease(&self, session: &Session, id: EvalId, token: Token) {
        if self.leader.leases.add(session, id, token) {
            tokio::spawn(take_back(Weak::clone(&self.own), session.clone()));
        }
    }
}

async fn take_back(core: Weak<Core>, session: Session) {
    session.closed().await;
    let Some(core) = core.upgrade() else { return };
    let lost = core.leader.leases.end(&session);
    if lost.is_empty() {
        return;
    }
    let (now, count) = (core.pace(), lost.len());
    let taken = lost.into_iter().filter(|(id, token)| core.queues().broker.nack_lost(*id, *token, now)).count();
    tracing::debug!(count, taken, "a server with evaluations has gone; they are delivered again");
    core.leader.deadlines.notify_one();
}

/// Whether a session has ended.
pub(crate) fn has_ended(session: Option<&Session>) -> bool {
    session.is_none_or(|session| session.ended().is_some())
}
