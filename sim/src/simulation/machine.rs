//! The state machine of a simulated server: the real tables, and a record of every entry. The real shell's
//! notifications and metrics are left out, except the event stream, which is the real one.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use songline_commands::{Envelope, Kind};
use songline_events::hub::{EventHub, StoredHistory};
use songline_log::{CheckpointSource, Committed, NodeId, Payload, Position, StateMachine};
use songline_projections::{Applied, Change, Outcome, Rejected, State};
use songline_scheduler::leader::gc::TimeTable;
use tokio::sync::{Notify, mpsc};

use super::plan::Sabotage;
use super::record::{Entry, Record, Violation};
use super::stream;

/// Result of an entry for its proposer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Index of the entry as users see it.
    pub index: u64,
    /// Result of apply.
    pub result: Result<Outcome, Rejected>,
}

/// Changes of one entry.
#[derive(Debug)]
pub struct Reaction {
    /// Index of the entry.
    pub index: u64,
    /// Kind of the entry.
    pub kind: Kind,
    /// Changed rows.
    pub changes: Arc<Vec<Change>>,
}

/// Receiver of applied batches, each with the state after it.
pub type Reactions = mpsc::UnboundedReceiver<(Arc<State>, Vec<Reaction>)>;

/// A server's state as the code outside of its state machine sees it.
pub struct Seen {
    /// The state after the last batch.
    view: Mutex<Arc<State>>,
    /// Hub of its event streams, from its first entry on.
    hub: OnceLock<Arc<EventHub>>,
    /// Notified of every batch.
    pub applied: Notify,
    /// Maps times to log indexes.
    pub times: Mutex<TimeTable>,
}

impl Seen {
    /// Current state.
    pub fn view(&self) -> Arc<State> {
        Arc::clone(&locked(&self.view))
    }

    /// Hub of its event streams; `None` before the first entry.
    pub fn hub(&self) -> Option<Arc<EventHub>> {
        self.hub.get().cloned()
    }
}

pub(super) fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state machine.
pub struct SimMachine {
    server: NodeId,
    state: State,
    seen: Arc<Seen>,
    reactions: mpsc::UnboundedSender<(Arc<State>, Vec<Reaction>)>,
    record: Arc<Record>,
    history: Arc<StoredHistory>,
    /// Index of the checkpoint that the state began with.
    installed: Option<u64>,
    /// Raft index of the next entry; `None` before the first.
    next: Option<u64>,
}

impl SimMachine {
    /// Creates a machine with empty tables. Also returns its outside view, and the receiver of its batches.
    pub fn new(server: NodeId, history: &Arc<StoredHistory>, record: &Arc<Record>) -> (Self, Arc<Seen>, Reactions) {
        let view = Mutex::new(Arc::new(State::new()));
        let seen = Arc::new(Seen { view, hub: OnceLock::new(), applied: Notify::new(), times: Mutex::default() });
        let (reactions, receiver) = mpsc::unbounded_channel();
        let (shown, record) = (Arc::clone(&seen), Arc::clone(record));
        let history = Arc::clone(history);
        (Self { server, state: State::new(), seen: shown, reactions, record, history, installed: None, next: Some(0) }, seen, receiver)
    }

    fn hub(&self) -> &Arc<EventHub> {
        // The hub begins after the checkpoint, or with the first entry of the log.
        self.seen.hub.get_or_init(|| stream::hub(&self.history, self.installed.map_or(1, |index| index + 1), &self.record))
    }

    fn publish(&self, reactions: Vec<Reaction>) {
        let hub = self.hub();
        for reaction in &reactions {
            hub.publish(reaction.index, reaction.kind, Arc::clone(&reaction.changes));
        }
        hub.pass(self.state.applied_index());
        let view = Arc::new(self.state.clone());
        *locked(&self.seen.view) = Arc::clone(&view);
        locked(&self.seen.times).witness(view.applied_index(), view.applied_at());
        self.seen.applied.notify_waiters();
        // The receiver is gone when the machine is dead.
        let _ = self.reactions.send((view, reactions));
    }

    fn apply_one(&mut self, committed: &Committed, reactions: &mut Vec<Reaction>) -> Reply {
        let Position { term, index } = committed.position;
        if self.next.is_some_and(|next| next != index) {
            let why = format!("server {} got entry {index} where {:?} had to come", self.server, self.next);
            self.record.found(Violation::Disagreement(why));
        }
        self.next = Some(index + 1);
        let (entry, reply) = match &committed.payload {
            Payload::Command(_) if self.drops(index) => self.pass(term, index, "dropped".to_owned()),
            Payload::Command(bytes) => {
                let envelope = Envelope::decode(bytes).expect("entries are written by this program");
                let applied = songline_projections::apply(&mut self.state, index, &envelope);
                let wrote = matches!(applied.result, Ok(Outcome::VariableWritten(_))) && !applied.repeated;
                let key = envelope.idempotency.as_ref().and_then(|sent| sent.key.parse().ok());
                let mut content = blake3::hash(bytes).to_hex()[..16].to_owned();
                content.push_str(&summary(&applied));
                if let Ok(Outcome::DigestDiffers { .. }) = &applied.result {
                    let why = format!("the state of server {} at index {index} is not the leader's", self.server);
                    self.record.found(Violation::Disagreement(why));
                }
                let kind = envelope.command.kind();
                let frame = stream::frame_of(index, kind, &applied.changes);
                let entry = Entry { term, content, frame, write: key.filter(|_| wrote) };
                reactions.push(Reaction { index: applied.index, kind, changes: Arc::new(applied.changes) });
                (entry, Reply { index: applied.index, result: applied.result })
            }
            Payload::Blank => self.pass(term, index, "blank".to_owned()),
            Payload::Membership(members) => self.pass(term, index, format!("{members:?}")),
        };
        self.record.applied(self.server, index, entry, u128::from_le_bytes(*self.state.digest().as_bytes()));
        reply
    }

    fn drops(&self, index: u64) -> bool {
        self.server == 2 && index.is_multiple_of(100) && self.record.is_sabotaged(Sabotage::DroppedEntries)
    }

    fn pass(&mut self, term: u64, index: u64, content: String) -> (Entry, Reply) {
        songline_projections::pass(&mut self.state, index);
        let reply = Reply { index: self.state.applied_index(), result: Ok(Outcome::Done) };
        (Entry { term, content, frame: None, write: None }, reply)
    }
}

/// Short description of an entry's effect.
fn summary(applied: &Applied) -> String {
    let result = match &applied.result {
        Ok(Outcome::VariableConflict(_)) => "conflict".to_owned(),
        Ok(_) => "done".to_owned(),
        Err(rejected) => rejected.to_string(),
    };
    format!(" @{} {result} {} changes{}", applied.index, applied.changes.len(), if applied.repeated { " repeated" } else { "" })
}

impl StateMachine for SimMachine {
    type Reply = Reply;

    fn apply(&mut self, batch: Vec<Committed>) -> Vec<Reply> {
        let mut reactions = Vec::with_capacity(batch.len());
        let replies = batch.iter().map(|committed| self.apply_one(committed, &mut reactions)).collect();
        self.publish(reactions);
        replies
    }

    fn checkpoint(&mut self) -> Box<dyn CheckpointSource> {
        Box::new(Frozen { state: self.state.clone(), hub: Arc::clone(self.hub()) })
    }

    fn install(&mut self, position: Position, content: &mut dyn Read) -> io::Result<()> {
        self.state = State::read_checkpoint(content).map_err(io::Error::other)?;
        self.record.note(&format!("server {} has the checkpoint {position}", self.server));
        // At a start the newest checkpoint comes before any entry.
        self.record.count(|counts| counts.installs += u64::from(self.next != Some(0)));
        self.next = Some(position.index + 1);
        self.installed = Some(self.state.applied_index());
        // A running server has subscribers, which never get the entries up to this checkpoint.
        if let Some(hub) = self.seen.hub.get() {
            hub.begin_after(self.state.applied_index());
        }
        self.publish(Vec::new());
        Ok(())
    }
}

struct Frozen {
    state: State,
    hub: Arc<EventHub>,
}

impl CheckpointSource for Frozen {
    fn write_to(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        // Entries that a checkpoint covers are not replayed, so their events have to be in the history before the
        // checkpoint is valid.
        if !self.hub.write_through(self.state.applied_index(), Duration::ZERO).map_err(io::Error::other)? {
            return Err(io::Error::other("the event history is too far behind for a checkpoint"));
        }
        self.state.write_checkpoint(out).map(|_| ()).map_err(io::Error::other)
    }
}
