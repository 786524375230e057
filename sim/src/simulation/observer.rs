//! Watches what a simulated server applies, for the checkers; and injects the defects that they have to find.

mod regions;
mod seen;
mod spoil;

use std::sync::Arc;

use parking_lot::Mutex;
use songline_commands::{Actor, Envelope, Kind};
use songline_events::refill::Refilled;
use songline_log::{Committed, Payload, Position};
use songline_projections::{Applied, Change, Outcome, State};
use songline_server::Observer;

use super::plan::Sabotage;
use super::record::{Entry, Record, Violation};
use super::stream;
pub use regions::{REGISTRATION, registration, why};

/// Name of the leader's loop that writes the objects of the authoritative region.
const REPLICATION: &str = "replication";

/// Observer of one life of the server on a machine.
pub struct Watcher {
    machine: u64,
    record: Arc<Record>,
    /// Raft index of the next entry; `None` before the first.
    next: Mutex<Option<u64>>,
    /// State after the last entry, if a defect is injected that depends on it.
    last: Mutex<Option<State>>,
}

impl Watcher {
    /// An observer of a server that begins with nothing.
    pub fn new(machine: u64, record: &Arc<Record>) -> Self {
        Self { machine, record: Arc::clone(record), next: Mutex::new(Some(0)), last: Mutex::default() }
    }

    fn drops(&self, index: u64) -> bool {
        self.machine == 2 && index.is_multiple_of(100) && self.record.is_sabotaged(Sabotage::DroppedEntries)
    }

    /// The entry for the record, and the number of rows that it replicated from another region.
    fn seen(&self, committed: &Committed, applied: Option<(Kind, &Applied)>) -> (Entry, usize) {
        let term = committed.position.term;
        let (bytes, kind, applied) = match (&committed.payload, applied) {
            (Payload::Command(bytes), Some((kind, applied))) => (bytes, kind, applied),
            (Payload::Membership(members), _) => {
                return (Entry { term, content: format!("{members:?}"), frame: None, write: None }, 0);
            }
            (Payload::Blank | Payload::Command(_), _) => {
                return (Entry { term, content: "blank".to_owned(), frame: None, write: None }, 0);
            }
        };
        let envelope = Envelope::decode(bytes).expect("the server has decoded it");
        let wrote = matches!(applied.result, Ok(Outcome::VariableWritten(_))) && !applied.repeated;
        let key = envelope.idempotency.as_ref().and_then(|sent| sent.key.parse().ok());
        let mut content = blake3::hash(bytes).to_hex()[..16].to_owned();
        content.push_str(&summary(applied));
        if let Ok(Outcome::DigestDiffers { .. }) = &applied.result {
            let why = format!(
                "the state of server {} at index {} is not the leader's",
                self.machine, committed.position.index
            );
            self.record.found(Violation::Disagreement(why));
        }
        let frame = stream::frame_of(applied.index, kind, &applied.changes);
        let replicates = matches!(&envelope.actor, Actor::Leader(name) if *name == REPLICATION);
        let entry = Entry { term, content, frame, write: key.filter(|_| wrote) };
        (entry, if replicates { applied.changes.len() } else { 0 })
    }
}

/// Number of allocations that an entry placed.
fn placed(changes: &[Change]) -> u64 {
    let placed = |change: &&Change| matches!(change, Change::Alloc { before: None, after: Some(_), .. });
    changes.iter().filter(placed).count() as u64
}

/// Short description of an entry's effect.
fn summary(applied: &Applied) -> String {
    let result = match &applied.result {
        Ok(Outcome::VariableConflict(_)) => "conflict".to_owned(),
        Ok(_) => "done".to_owned(),
        Err(rejected) => rejected.to_string(),
    };
    format!(
        " @{} {result} {} changes{}",
        applied.index,
        applied.changes.len(),
        if applied.repeated { " repeated" } else { "" }
    )
}

impl Observer for Watcher {
    fn before(&self, mut entry: Committed) -> Committed {
        if self.drops(entry.position.index) && matches!(entry.payload, Payload::Command(_)) {
            entry.payload = Payload::Blank;
        }
        if let (Some(sabotage), Payload::Command(bytes)) = (self.record.sabotage(), &entry.payload)
            && let Some(spoiled) = spoil::spoiled(sabotage, entry.position.index, bytes, self.last.lock().as_ref())
        {
            entry.payload = Payload::Command(spoiled);
        }
        entry
    }

    fn applied(&self, committed: &Committed, applied: Option<(Kind, &Applied)>, state: &State) {
        let index = committed.position.index;
        let awaited = self.next.lock().replace(index + 1);
        if awaited.is_some_and(|next| next != index) {
            let why = format!("server {} got entry {index} where {awaited:?} had to come", self.machine);
            self.record.found(Violation::Disagreement(why));
        }
        let (entry, replicated) = self.seen(committed, applied);
        let first = self.record.applied(self.machine, index, entry, u128::from_le_bytes(*state.digest().as_bytes()));
        if self.record.sabotage().is_some() {
            *self.last.lock() = Some(state.clone());
        }
        if let Some((_, applied)) = applied.filter(|_| first) {
            self.record.count(|counts| {
                counts.placed += placed(&applied.changes);
                counts.replicated += replicated as u64;
            });
            seen::judge(&self.record, applied, state);
            regions::judge(&self.record, &applied.changes);
        }
    }

    fn installed(&self, position: Position) {
        self.record.note(&format!("server {} has the checkpoint {position}", self.machine));
        // At a start the newest checkpoint comes before any entry.
        let before = self.next.lock().replace(position.index + 1);
        self.record.count(|counts| counts.installs += u64::from(before != Some(0)));
    }

    fn began_anew(&self) {
        *self.next.lock() = Some(0);
        self.record.count(|counts| counts.comebacks += 1);
        self.record.note(&format!("server {} is back", self.machine));
    }

    fn refilled(&self, store: &'static str, came_of_it: Refilled) {
        if let Refilled::From(oldest) = came_of_it {
            self.record.filled(self.machine, store, oldest);
        }
    }
}
