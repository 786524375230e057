//! Nodes with a session to this server. The table only routes calls and gives no rights, because a session carries
//! calls of many users.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_model::{NodeId, Time};
use songline_rpc::yamux::Session;

/// Nodes and their sessions. Clones share the table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    by_node: Arc<Mutex<BTreeMap<NodeId, Vec<Connected>>>>,
}

#[derive(Debug)]
struct Connected {
    session: Session,
    since: Time,
}

impl Sessions {
    /// Registers `node` as authenticated over `session`. The first node of a session stays.
    pub(super) fn remember(&self, node: NodeId, session: &Session, now: Time) {
        let mut by_node = self.by_node.lock();
        if by_node.values().flatten().any(|known| known.session.is(session)) {
            return;
        }
        by_node.entry(node).or_default().push(Connected { session: session.clone(), since: now });
        drop(by_node);
        let (sessions, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            session.closed().await;
            sessions.forget(node, &session);
        });
    }

    fn forget(&self, node: NodeId, session: &Session) {
        let mut by_node = self.by_node.lock();
        if let Some(known) = by_node.get_mut(&node) {
            known.retain(|known| !known.session.is(session));
            if known.is_empty() {
                by_node.remove(&node);
            }
        }
    }

    /// The newest session of a node, and its start.
    pub(super) fn newest(&self, node: NodeId) -> Option<(Session, Time)> {
        let by_node = self.by_node.lock();
        let live = by_node.get(&node)?.iter().rev().find(|known| known.session.ended().is_none())?;
        Some((live.session.clone(), live.since))
    }
}
