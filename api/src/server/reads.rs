//! Reads of the applied state, and waits for changes of it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use songline_events::hub::EventHub;
use songline_events::past::Past;
use songline_events::watch::Watches;
use songline_model::EventSink;
use songline_projections::State;

use super::{Agent, ProposeError};
use crate::keyring::Keyring;

/// Reads of the applied state.
pub trait Reads: Agent {
    /// The newest applied state.
    fn view(&self) -> Arc<State>;

    /// Returns once this server has confirmed with a quorum that it leads, and has applied every entry that was
    /// acknowledged before the call. Fails on a server that does not lead.
    fn read_barrier(&self) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Same as [`Self::read_barrier`], but the leader's lease is enough proof of its leadership. By default identical
    /// to it.
    fn lease_barrier(&self) -> impl Future<Output = Result<(), ProposeError>> + Send {
        self.read_barrier()
    }

    /// This server's contact with the leader, which bounds the age of its answers.
    fn contact(&self) -> Contact;

    /// Watches on which blocking queries wait. The shell notifies them after every applied entry.
    fn watches(&self) -> &Watches;

    /// Source of all event streams. The shell publishes to it after every applied entry.
    fn events(&self) -> &Arc<EventHub>;

    /// Access to past states and to entries of the log; `None` when this server keeps none.
    fn past(&self) -> Option<&dyn Past> {
        None
    }

    /// Whether this server can deliver to such an event sink as the leader; the reason if it cannot.
    fn takes_event_sink(&self, _sink: &EventSink) -> Result<(), String> {
        Ok(())
    }

    /// Index up to which this server, as the leader, has delivered all events of an event sink. `None` if it does not
    /// deliver to the sink.
    fn event_sink_reached(&self, _name: &str) -> Option<u64> {
        None
    }

    /// Encryption and decryption with the cluster's root keys: identities of tasks are checked with them.
    fn keyring(&self) -> &impl Keyring;
}

/// A server's contact with the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contact {
    /// Whether a leader is known.
    pub known_leader: bool,
    /// Time since the last message of the leader; zero on the leader.
    pub last_contact: Duration,
}
