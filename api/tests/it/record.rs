//! The past of a server in memory: every state, every command, and the touches of each command.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_commands::Envelope;
use songline_events::entry::{AppliedEntry, Ending};
use songline_events::past::{LoggedCommand, Past, PastFuture};
use songline_events::touches::Touches;
use songline_projections::{Applied, State};

/// States, commands and touches of a server since its start.
pub struct Record {
    touches: Arc<Touches>,
    states: Mutex<BTreeMap<u64, Arc<State>>>,
    log: Mutex<Vec<LoggedCommand>>,
    _dir: tempfile::TempDir,
}

impl Record {
    /// A record that starts with this state.
    pub fn from(state: Arc<State>) -> Arc<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let touches = Touches::open(dir.path()).expect("opens");
        let index = state.applied_index();
        touches.begin(index + 1).expect("begins");
        let states = Mutex::new(BTreeMap::from([(index, state)]));
        Arc::new(Self { touches, states, log: Mutex::default(), _dir: dir })
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
        self.touches.publish(AppliedEntry { index, at, kind, ending, changes: Arc::new(applied.changes.clone()) });
    }
}

impl Past for Record {
    fn touches(&self) -> &Arc<Touches> {
        &self.touches
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
