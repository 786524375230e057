//! The past of a server in memory: every state, every command, and the object history of each command.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_commands::Envelope;
use songline_events::entry::{AppliedEntry, Ending};
use songline_events::hub::EventHub;
use songline_events::object_history::ObjectHistory;
use songline_events::past::{LoggedCommand, Past, PastFuture};
use songline_projections::{Applied, State};

/// States, commands and object history of a server since its start.
pub struct Record {
    object_history: Arc<ObjectHistory>,
    events: Arc<EventHub>,
    states: Mutex<BTreeMap<u64, Arc<State>>>,
    log: Mutex<Vec<LoggedCommand>>,
    _dir: tempfile::TempDir,
}

impl Record {
    /// A record that starts with this state. `events` gets the events of its entries.
    pub fn from(state: Arc<State>, events: Arc<EventHub>) -> Arc<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let object_history = ObjectHistory::open(dir.path()).expect("opens");
        let index = state.applied_index();
        object_history.begin(index + 1).expect("begins");
        let states = Mutex::new(BTreeMap::from([(index, state)]));
        Arc::new(Self { object_history, events, states, log: Mutex::default(), _dir: dir })
    }

    /// Adds one entry, and the state after it.
    pub fn keep(&self, state: Arc<State>, envelope: Envelope, applied: &Applied) {
        let index = state.applied_index();
        let ending = match &applied.result {
            Err(refused) => Ending::Refused(refused.to_string()),
            Ok(_) if applied.repeated => Ending::Repeated(applied.index),
            Ok(_) => Ending::Done,
        };
        let (at, kind) = (envelope.at, envelope.command.kind());
        self.states.lock().insert(index, state);
        self.log.lock().push(LoggedCommand { index, envelope });
        self.object_history.publish(AppliedEntry {
            index,
            at,
            kind,
            ending,
            changes: Arc::new(applied.changes.clone()),
        });
    }
}

impl Past for Record {
    fn object_history(&self) -> &Arc<ObjectHistory> {
        &self.object_history
    }

    fn events(&self) -> &Arc<EventHub> {
        &self.events
    }

    fn oldest_entry(&self) -> u64 {
        1
    }

    fn state_at(&self, index: u64) -> PastFuture<'_, Arc<State>> {
        let found = self.states.lock().range(..=index).next_back().map(|(_, state)| Arc::clone(state));
        Box::pin(std::future::ready(Ok(found.expect("the first state has the lowest index"))))
    }

    fn commands(&self, range: Range<u64>) -> PastFuture<'_, Vec<LoggedCommand>> {
        let found = self.log.lock().iter().filter(|command| range.contains(&command.index)).cloned().collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}
