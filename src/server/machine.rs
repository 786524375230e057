//! The state that the log drives: applies entries and tells everybody who lives on changes.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use songline_api::touches::{AppliedEntry, Ending};
use songline_commands::{Command, Envelope, Kind};
use songline_log::{CheckpointSource, Committed, PastBounds, Payload, Position, Retention, StateMachine};
use songline_model::Blob;
use songline_projections::{Applied, Change, Outcome, Rejected, State};
use tokio::sync::mpsc;

use super::{Core, lock};
use crate::config::ServerConfig;

/// How long a checkpoint waits for the event history.
const HISTORY_WAIT: Duration = Duration::from_secs(60);

/// How many old checkpoints are kept so that reading a past state replays a part of the log only ..
const PAST_CHECKPOINTS_MAX: usize = 24;
/// .. and how much disk they may take, in bytes.
const PAST_CHECKPOINT_BYTES_MAX: u64 = 4 << 30;

/// What the proposer of an entry gets back.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Index of the entry as users see it.
    pub index: u64,
    /// What apply says.
    pub result: Result<Outcome, Rejected>,
    /// How long applying it took.
    pub took: Duration,
}

/// An applied entry that changed something, for the leader's machines.
#[derive(Debug, Clone)]
pub(crate) struct Reaction {
    pub index: u64,
    pub kind: Kind,
    pub changes: Arc<Vec<Change>>,
}

/// Batches of reactions, and the state after each batch.
pub(crate) type Reactions = mpsc::UnboundedReceiver<(Arc<State>, Vec<Reaction>)>;

/// The other end of them.
pub(crate) type Reacting = mpsc::UnboundedSender<(Arc<State>, Vec<Reaction>)>;

/// The one writer of the state.
pub struct Machine {
    state: State,
    /// Index of the checkpoint that the state began with.
    installed: Option<u64>,
    core: Weak<Core>,
    reactions: Option<Reacting>,
    announced: Announced,
}

/// What another state, whose place this one takes in the same process, has told everybody.
#[derive(Debug, Clone, Copy)]
enum Announced {
    /// There was none.
    Nothing,
    /// It is looked up when this one begins: until then the other may still tell.
    NotLookedUp,
    /// What happened up to this index.
    UpTo(u64),
}

impl Machine {
    pub(crate) fn new(core: &Arc<Core>) -> (Self, Reactions) {
        let (reactions, receiver) = mpsc::unbounded_channel();
        *lock(&core.reactions) = Some(reactions.clone());
        (
            Self {
                state: State::new(),
                installed: None,
                core: Arc::downgrade(core),
                reactions: Some(reactions),
                announced: Announced::Nothing,
            },
            receiver,
        )
    }

    /// One that takes the place of another, which has to be no more before anything is applied here.
    pub(crate) fn again(core: &Arc<Core>) -> Self {
        Self {
            state: State::new(),
            installed: None,
            core: Arc::downgrade(core),
            reactions: core.reactions(),
            announced: Announced::NotLookedUp,
        }
    }

    /// Whether everybody knows what the last applied entry did.
    fn is_old_news(&mut self) -> bool {
        if let Announced::NotLookedUp = self.announced {
            self.announced = Announced::UpTo(self.core.upgrade().map_or(0, |core| core.announced()));
        }
        match self.announced {
            Announced::Nothing | Announced::NotLookedUp => false,
            Announced::UpTo(index) => self.state.applied_index() <= index,
        }
    }

    /// A state that has become what another was must be what it was.
    fn compare(&self) {
        let Some(core) = self.core.upgrade() else { return };
        let view = core.view();
        if view.applied_index() != self.state.applied_index() || view.digest() == self.state.digest() {
            return;
        }
        let why = format!(
            "the state at index {} that was rebuilt from the disk differs from the one before its failure; `songline log verify` tells more",
            view.applied_index()
        );
        core.fence.set(why.clone());
        std::panic::resume_unwind(Box::new(why));
    }

    /// Publishes the entry that was just applied to the record of touches, and measures it.
    fn record(&self, kind: Kind, result: &Result<Outcome, Rejected>, repeats: Option<u64>, changes: &Arc<Vec<Change>>, took: Duration) {
        let Some(core) = self.core.upgrade() else { return };
        core.metrics.measure_entry(kind, took);
        let entry = recorded(&self.state, kind, result, repeats, Arc::clone(changes));
        if kind == Kind::Restore && entry.ending == Ending::Done {
            core.past.begin_anew(self.state.applied_index());
        }
        core.touches().publish(entry);
    }

    fn publish(&self, reactions: Vec<Reaction>) {
        let Some(core) = self.core.upgrade() else { return };
        // The hub has to know with which entry it begins: behind the checkpoint, or with the first entry there ever was.
        core.start_events(self.installed.map_or(1, |index| index + 1));
        let view = Arc::new(self.state.clone());
        let before = core.view.swap(Arc::clone(&view));
        if reactions.iter().any(|reaction| matches!(reaction.changes[..], [Change::Restored])) {
            // Millions of rows are freed, and nobody shall wait for that.
            std::thread::spawn(move || drop(before));
        }
        lock(&core.times).witness(self.state.applied_index(), self.state.applied_at());
        core.metrics.follow(&view, &reactions);
        core.applied.send_replace(self.state.applied_index());
        for reaction in &reactions {
            core.keyring.follow(&reaction.changes);
            core.watches.wake(&reaction.changes);
            core.events().publish(reaction.index, reaction.kind, Arc::clone(&reaction.changes));
        }
        // Entries of consensus have no reaction, and that of a repeated write has the first write's index. A checkpoint behind either waits
        // until the hub has passed it.
        core.events().pass(self.state.applied_index());
        // Whoever follows leadership is gone only when the server is going down.
        if let Some(told) = &self.reactions {
            let _ = told.send((view, reactions));
        }
    }
}

/// The record of the entry that a state has just applied.
fn recorded(
    state: &State,
    kind: Kind,
    result: &Result<Outcome, Rejected>,
    repeats: Option<u64>,
    changes: Arc<Vec<Change>>,
) -> AppliedEntry {
    let ending = match (repeats, result) {
        (Some(first), _) => Ending::Repeated(first),
        (None, Ok(_)) => Ending::Done,
        (None, Err(rejected)) => Ending::Refused(rejected.to_string()),
    };
    AppliedEntry { index: state.applied_index(), at: state.applied_at(), kind, ending, changes }
}

/// The same for an entry of a replay.
pub(super) fn replayed(state: &State, kind: Kind, applied: Applied) -> AppliedEntry {
    let repeats = applied.repeated.then_some(applied.index);
    recorded(state, kind, &applied.result, repeats, Arc::new(applied.changes))
}

impl StateMachine for Machine {
    type Reply = Reply;

    fn apply(&mut self, batch: Vec<Committed>) -> Vec<Reply> {
        let begun = Instant::now();
        let entries = batch.len();
        let mut reactions = Vec::with_capacity(batch.len());
        let mut replies = Vec::with_capacity(batch.len());
        for entry in batch {
            let started = Instant::now();
            let archive = |digest: &str| self.core.upgrade()?.archive(digest);
            let Some((kind, applied)) = apply_entry(&mut self.state, &entry, archive) else {
                if !self.is_old_news()
                    && let Some(core) = self.core.upgrade()
                {
                    core.touches().pass(self.state.applied_index());
                }
                replies.push(Reply { index: self.state.applied_index(), result: Ok(Outcome::Done), took: Duration::ZERO });
                continue;
            };
            if let Ok(Outcome::DigestDiffers { ours, theirs, .. }) = &applied.result {
                let why = format!(
                    "the state at index {} has digest {ours}, the leader's is {theirs}: this server stops before it spreads; \
                     `songline log verify` names the table",
                    applied.index
                );
                if let Some(core) = self.core.upgrade() {
                    core.fence.set(why.clone());
                }
                // Nothing behind this entry is applied: the log takes it for a panic and stops. It is no defect of this program, so nothing
                // is printed as of one.
                std::panic::resume_unwind(Box::new(why));
            }
            let took = started.elapsed();
            let Applied { index, result, changes, repeated } = applied;
            if self.is_old_news() {
                self.compare();
                replies.push(Reply { index, result, took });
                continue;
            }
            let changes = Arc::new(changes);
            self.record(kind, &result, repeated.then_some(index), &changes, took);
            reactions.push(Reaction { index, kind, changes });
            replies.push(Reply { index, result, took });
        }
        if self.is_old_news() {
            return replies;
        }
        self.publish(reactions);
        if let Some(core) = self.core.upgrade() {
            core.apply_times.record(begun.elapsed());
            core.metrics.at.raft_batch.add(entries);
        }
        replies
    }

    fn checkpoint(&mut self) -> Box<dyn CheckpointSource> {
        Box::new(Frozen { state: self.state.clone(), core: Weak::clone(&self.core) })
    }

    fn install(&mut self, _position: Position, content: &mut dyn Read) -> io::Result<()> {
        self.state = crate::ahead::read_state(content).map_err(io::Error::other)?;
        self.installed = Some(self.state.applied_index());
        if self.is_old_news() {
            return Ok(());
        }
        let core = self.core.upgrade();
        if let Some(core) = &core {
            core.touches().begin(self.state.applied_index() + 1).map_err(io::Error::other)?;
            core.metrics.replaced(&self.state);
        }
        // A server that was running has people who wait, and who follow what happens.
        let running = core.filter(|core| core.events.get().is_some());
        self.publish(Vec::new());
        if let Some(core) = running {
            core.events().begin_after(self.state.applied_index());
            core.keyring.follow(&[Change::Restored]);
            core.watches.wake_all();
        }
        Ok(())
    }
}

/// What an entry only names.
pub(super) enum Archive {
    /// Its content.
    Content(Vec<u8>),
    /// The state that its content was read as.
    Read(Box<State>),
}

/// Applies one entry of the log to a state. `None` for entries that are no commands.
///
/// Panics on an entry that cannot be read: to skip it would be to diverge from every other server.
pub(super) fn apply_entry(state: &mut State, entry: &Committed, archive: impl FnOnce(&str) -> Option<Archive>) -> Option<(Kind, Applied)> {
    let raft_index = entry.position.index;
    let Payload::Command(bytes) = &entry.payload else {
        songline_projections::pass(state, raft_index);
        return None;
    };
    let mut envelope = match Envelope::decode(bytes) {
        Ok(envelope) => envelope,
        Err(error) => panic!("entry {raft_index} of the log cannot be applied: {error}"),
    };
    #[cfg(debug_assertions)]
    super::defects::alter(&mut envelope);
    // An entry only names the archive that it restores; the content lies beside the log.
    if let Command::Restore(restore) = &mut envelope.command
        && restore.archive.0.is_empty()
    {
        match archive(&restore.digest) {
            Some(Archive::Content(content)) => restore.archive = Blob(content),
            Some(Archive::Read(restored)) => {
                let applied = songline_projections::apply_restore(state, raft_index, &envelope, *restored);
                return Some((envelope.command.kind(), applied));
            }
            None => panic!("entry {raft_index} restores archive {}, which is not in this server's directory", restore.digest),
        }
    }
    let applied = songline_projections::apply(state, raft_index, &envelope);
    Some((envelope.command.kind(), applied))
}

/// Applies entries in order to a state, without anybody who lives on changes: for checking a log against a state.
/// Answers of which kind its command is.
pub fn replay(state: &mut State, entry: &Committed, archive: impl FnOnce(&str) -> Option<Vec<u8>>) -> Option<Kind> {
    apply_entry(state, entry, |digest| archive(digest).map(Archive::Content)).map(|(kind, _)| kind)
}

struct Frozen {
    state: State,
    core: Weak<Core>,
}

impl CheckpointSource for Frozen {
    fn write_to(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        // What a checkpoint covers is not replayed, so its events have to be in the history before it counts.
        if let Some(core) = self.core.upgrade()
            && !core.events().write_through(self.state.applied_index(), HISTORY_WAIT).map_err(io::Error::other)?
        {
            return Err(io::Error::other("the event history is too far behind for a checkpoint"));
        }
        if let Some(core) = self.core.upgrade() {
            core.touches().write_through().map_err(io::Error::other)?;
        }
        self.state.write_checkpoint(out).map(|_| ()).map_err(io::Error::other)
    }
}

/// How the log is kept.
pub(crate) fn log_config(config: &ServerConfig, dir: PathBuf) -> songline_log::Config {
    let mut told = songline_log::Config::new(dir);
    told.past = PastBounds { checkpoints_max: PAST_CHECKPOINTS_MAX, bytes_max: PAST_CHECKPOINT_BYTES_MAX };
    told.retention = Retention {
        age: config.log_retention_age.to_std(),
        bytes_max: config.log_retention_bytes,
        entries_min: config.log_retention_entries_min,
    };
    told
}
