//! The state that the log drives: applies entries and publishes the changes.

use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use songline_commands::{Command, Envelope, Kind};
use songline_events::entry::{AppliedEntry, Ending};
use songline_log::{CheckpointSource, Committed, PastBounds, Payload, Position, Retention, StateMachine};
use songline_model::Blob;
use songline_projections::{Applied, Change, Outcome, Rejected, State};
use tokio::sync::mpsc;

use super::{Core, Facts, Observer, Surroundings};

/// Longest wait of a checkpoint for the event history.
const HISTORY_WAIT: Duration = Duration::from_secs(60);

/// Number of old checkpoints that are kept, so that reading a past state replays only a part of the log ..
const PAST_CHECKPOINTS_MAX: usize = 24;
/// .. and the most disk space that they may take, in bytes.
const PAST_CHECKPOINT_BYTES_MAX: u64 = 4 << 30;

/// Result of an applied entry for its proposer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Index of the entry as users see it.
    pub index: u64,
    /// Result of apply.
    pub result: Result<Outcome, Rejected>,
    /// Duration of applying the entry.
    pub took: Duration,
}

/// An applied entry that changed something, for the leader's machines.
#[derive(Debug, Clone)]
pub(crate) struct Reaction {
    pub index: u64,
    pub kind: Kind,
    pub changes: Arc<Vec<Change>>,
}

/// Receiver of batches of reactions, each with the state after the batch.
pub(crate) type Reactions = mpsc::UnboundedReceiver<(Arc<State>, Vec<Reaction>)>;

/// Sender of the same batches.
pub(crate) type Reacting = mpsc::UnboundedSender<(Arc<State>, Vec<Reaction>)>;

/// The only writer of the state.
pub struct Machine {
    state: State,
    /// Index of the checkpoint that the state began with.
    installed: Option<u64>,
    core: Weak<Core>,
    announced: Announced,
}

/// Index up to which a predecessor, a machine that this one replaces in the same process, has published entries.
#[derive(Debug, Clone, Copy)]
enum Announced {
    /// There was no predecessor.
    Nothing,
    /// Looked up when this machine begins: until then the predecessor may still publish.
    NotLookedUp,
    /// Entries up to this index were published.
    UpTo(u64),
}

impl Machine {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { state: State::new(), installed: None, core: Arc::downgrade(core), announced: Announced::Nothing }
    }

    /// Creates the successor of a machine. The predecessor must have stopped before this machine applies anything.
    pub(crate) fn again(core: &Arc<Core>) -> Self {
        Self { state: State::new(), installed: None, core: Arc::downgrade(core), announced: Announced::NotLookedUp }
    }

    /// Whether the last applied entry was already published by the predecessor.
    fn is_old_news(&mut self) -> bool {
        if let Announced::NotLookedUp = self.announced {
            self.announced = Announced::UpTo(self.core.upgrade().map_or(0, |core| core.published.applied_index()));
        }
        match self.announced {
            Announced::Nothing | Announced::NotLookedUp => false,
            Announced::UpTo(index) => self.state.applied_index() <= index,
        }
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.core.upgrade()?.facts.surroundings.observer.clone()
    }

    /// Panics unless the rebuilt state equals the predecessor's state at the same index.
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

    /// Publishes the entry that was just applied to the object history, and measures it.
    fn record(
        &self,
        kind: Kind,
        result: &Result<Outcome, Rejected>,
        repeats: Option<u64>,
        changes: &Arc<Vec<Change>>,
        took: Duration,
    ) {
        let Some(core) = self.core.upgrade() else { return };
        core.metrics.measure_entry(kind, took);
        let entry = recorded(&self.state, kind, result, repeats, Arc::clone(changes));
        if kind == Kind::Restore && entry.ending == Ending::Done {
            core.published.past.begin_anew(self.state.applied_index());
        }
        core.object_history().publish(entry);
    }

    fn publish(&self, reactions: Vec<Reaction>) {
        let Some(core) = self.core.upgrade() else { return };
        // The hub has to know its first entry: the one after the checkpoint, or the first entry of the log.
        core.start_events(self.installed.map_or(1, |index| index + 1));
        let view = Arc::new(self.state.clone());
        let before = core.published.view.swap(Arc::clone(&view));
        if reactions.iter().any(|reaction| matches!(reaction.changes[..], [Change::Restored])) {
            // Dropping frees millions of rows, so it is done on another thread.
            let dropping = core.facts.disk.start_blocking("drop-state", move || drop(before));
            if let Err(error) = dropping {
                tracing::debug!(%error, "the former state was dropped here");
            }
        }
        core.published.times.lock().witness(self.state.applied_index(), self.state.applied_at());
        core.metrics.follow(&view, &reactions);
        core.published.applied.send_replace(self.state.applied_index());
        for reaction in &reactions {
            core.keyring.follow(&reaction.changes);
            core.published.watches.wake(&reaction.changes);
            core.events().publish(reaction.index, reaction.kind, Arc::clone(&reaction.changes));
        }
        // Consensus entries have no reaction, and the reaction of a repeated write has the first write's index. A
        // checkpoint after either of them waits until the hub has passed its index.
        core.events().pass(self.state.applied_index());
        // The receiver is gone only when the server is shutting down.
        if let Some(told) = core.leader.reactions() {
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

/// Like `recorded`, for an entry of a replay.
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
        let observer = self.observer();
        for entry in batch {
            let entry = match &observer {
                Some(observer) => observer.before(entry),
                None => entry,
            };
            let started = Instant::now();
            let archive = |digest: &str| {
                let core = self.core.upgrade()?;
                let archive = core.archive(digest);
                // Last, because fetching the archive announces an entry that is still to come.
                core.stores.named_archives.note(digest, entry.position.index);
                archive
            };
            let Some((kind, applied)) = apply_entry(&mut self.state, &entry, archive) else {
                if !self.is_old_news()
                    && let Some(core) = self.core.upgrade()
                {
                    core.object_history().pass(self.state.applied_index());
                }
                if let Some(observer) = &observer {
                    observer.applied(&entry, None, &self.state);
                }
                replies.push(Reply {
                    index: self.state.applied_index(),
                    result: Ok(Outcome::Done),
                    took: Duration::ZERO,
                });
                continue;
            };
            if let Some(observer) = &observer {
                observer.applied(&entry, Some((kind, &applied)), &self.state);
            }
            if let Ok(Outcome::DigestDiffers { ours, theirs, .. }) = &applied.result {
                let why = format!(
                    "the state at index {} has digest {ours}, the leader's is {theirs}: this server stops before it spreads; \
                     `songline log verify` names the table",
                    applied.index
                );
                if let Some(core) = self.core.upgrade() {
                    core.fence.set(why.clone());
                }
                // Nothing after this entry may be applied: the unwinding stops the log as a panic does.
                // `resume_unwind` skips the panic hook, because this is no defect of the program.
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
            core.published.apply_times.record(begun.elapsed());
            core.metrics.at.raft_batch.add(entries);
        }
        replies
    }

    fn checkpoint(&mut self) -> Box<dyn CheckpointSource> {
        Box::new(Frozen { state: self.state.clone(), core: Weak::clone(&self.core) })
    }

    fn install(&mut self, position: Position, content: &mut dyn Read) -> io::Result<()> {
        if let Some(observer) = self.observer() {
            observer.installed(position);
        }
        self.state = crate::ahead::read_state(content).map_err(io::Error::other)?;
        self.installed = Some(self.state.applied_index());
        if self.is_old_news() {
            return Ok(());
        }
        let core = self.core.upgrade();
        if let Some(core) = &core {
            core.object_history().begin(self.state.applied_index() + 1).map_err(io::Error::other)?;
            core.metrics.replaced(&self.state);
        }
        // A running server has waiting requests and subscribers, which have to see the new state.
        let running = core.filter(|core| core.stores.has_events());
        self.publish(Vec::new());
        if let Some(core) = running {
            core.events().begin_after(self.state.applied_index());
            core.keyring.follow(&[Change::Restored]);
            core.published.watches.wake_all();
        }
        Ok(())
    }
}

/// Archive that an entry names.
pub(super) enum Archive {
    /// Content of the archive, not decoded.
    Content(Vec<u8>),
    /// The state decoded from the content.
    Read(Box<State>),
}

/// Applies one entry of the log to a state. `None` for entries that are not commands.
///
/// Panics on an entry that cannot be decoded: skipping it would make this server diverge from the others.
pub(super) fn apply_entry(
    state: &mut State,
    entry: &Committed,
    archive: impl FnOnce(&str) -> Option<Archive>,
) -> Option<(Kind, Applied)> {
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
    // An entry only names the archive that it restores; the content is a file beside the log.
    if let Command::Restore(restore) = &mut envelope.command
        && restore.archive.0.is_empty()
    {
        match archive(&restore.digest) {
            Some(Archive::Content(content)) => restore.archive = Blob(content),
            Some(Archive::Read(restored)) => {
                let applied = songline_projections::apply_restore(state, raft_index, &envelope, *restored);
                return Some((envelope.command.kind(), applied));
            }
            None => panic!(
                "entry {raft_index} restores archive {}, which is not in this server's directory",
                restore.digest
            ),
        }
    }
    let applied = songline_projections::apply(state, raft_index, &envelope);
    Some((envelope.command.kind(), applied))
}

/// Applies one entry to a state without publishing anything: for checking a log against a state. Returns the kind of
/// the entry's command.
pub fn replay(state: &mut State, entry: &Committed, archive: impl FnOnce(&str) -> Option<Vec<u8>>) -> Option<Kind> {
    apply_entry(state, entry, |digest| archive(digest).map(Archive::Content)).map(|(kind, _)| kind)
}

struct Frozen {
    state: State,
    core: Weak<Core>,
}

impl CheckpointSource for Frozen {
    fn write_to(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        // Entries that a checkpoint covers are not replayed, so their events have to be in the history before the
        // checkpoint is valid.
        if let Some(core) = self.core.upgrade()
            && !core.events().write_through(self.state.applied_index(), HISTORY_WAIT).map_err(io::Error::other)?
        {
            return Err(io::Error::other("the event history is too far behind for a checkpoint"));
        }
        if let Some(core) = self.core.upgrade() {
            core.object_history().write_through().map_err(io::Error::other)?;
        }
        self.state.write_checkpoint(out).map(|_| ()).map_err(io::Error::other)
    }
}

impl Facts {
    /// Configuration of the log.
    pub(crate) fn log_config(&self) -> songline_log::Config {
        let Surroundings { timing, store, retention, .. } = self.surroundings.clone();
        let configured = Retention {
            age: self.config.log_retention_age.to_std(),
            bytes_max: self.config.log_retention_bytes,
            entries_min: self.config.log_retention_entries_min,
        };
        songline_log::Config {
            disk: Arc::clone(&self.disk),
            past: PastBounds { checkpoints_max: PAST_CHECKPOINTS_MAX, bytes_max: PAST_CHECKPOINT_BYTES_MAX },
            retention: retention.unwrap_or(configured),
            timing,
            store,
            ..songline_log::Config::new(self.dir.clone())
        }
    }
}
