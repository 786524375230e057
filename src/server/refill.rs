//! Fills the event history anew from the log when it was lost: its folder was deleted, or never came with the rest of the data. It is
//! derived, so nothing else suffers; until it is whole, streams are told the gap. Beside everything else, in a thread of its own.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use songline_api::event::{Batch, FjallHistory, HistoryError};
use songline_commands::Kind;
use songline_log::{Entries, Reader};
use songline_projections::State;
use tokio::sync::oneshot;

use super::machine::{Archive, apply_entry};
use super::{Core, watching};

/// How long after it could not be filled it is tried again.
const RETRY_WAIT: Duration = Duration::from_secs(10);
/// Entries are written in pieces of so many bytes of frames or so.
const PIECE_BYTES: usize = 1 << 20;

/// Why the history could not be filled. It stays as it is, and that is tried again.
#[derive(Debug, thiserror::Error)]
enum RefillError {
    #[error("reading the log")]
    Read(#[from] songline_log::ReadError),
    #[error("opening the log")]
    Open(#[from] songline_log::OpenError),
    #[error("reading a checkpoint")]
    Checkpoint(#[source] std::io::Error),
    #[error("reading a checkpoint")]
    State(#[from] songline_projections::CheckpointError),
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// What came of it.
enum Refilled {
    /// The history begins with this index now, after so many entries with events.
    From(u64, usize),
    /// The log has nothing older.
    NothingOlder,
    /// The server is going down, or the history was replaced meanwhile.
    Abandoned,
}

/// Fills the history whenever it was lost, for as long as the server runs.
pub(crate) fn start(core: &Arc<Core>) {
    let mut losses = core.history.losses();
    watching::until_shutdown(core, async move |own| {
        // The history goes with the server.
        while losses.wait_for(|lost| *lost).await.is_ok() {
            if !fill_once(&own).await {
                tokio::time::sleep(RETRY_WAIT).await;
            }
        }
    });
}

/// Whether nothing is missing any more that could be had.
async fn fill_once(weak: &Weak<Core>) -> bool {
    let (told, done) = oneshot::channel();
    let weak = Weak::clone(weak);
    let run = move || {
        let filled = match refill(&weak) {
            Ok(Refilled::From(oldest, entries)) => {
                tracing::info!(oldest, entries, "the event history was filled anew from the log");
                true
            }
            Ok(Refilled::NothingOlder) => {
                tracing::warn!("the event history was lost, and the log has nothing older than what is there");
                true
            }
            Ok(Refilled::Abandoned) => false,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the event history was lost and could not be filled anew");
                false
            }
        };
        // Nobody waits any more where the server is going down.
        let _ = told.send(filled);
    };
    if let Err(error) = std::thread::Builder::new().name("events-refill".to_owned()).spawn(run) {
        tracing::error!(error = &error as &dyn std::error::Error, "starting to fill the event history anew");
    }
    done.await.unwrap_or(false)
}

fn refill(weak: &Weak<Core>) -> Result<Refilled, RefillError> {
    let Some(core) = weak.upgrade() else { return Ok(Refilled::Abandoned) };
    let history = Arc::clone(&core.history);
    let before = history.oldest_index();
    let Some((mut state, entries)) = beginning(&core)? else {
        history.found()?;
        return Ok(Refilled::NothingOlder);
    };
    // A server that goes down does not wait for this thread.
    drop(core);
    history.begin_filling()?;
    let mut oldest = state.applied_index() + 1;
    let mut piece = Piece::default();
    for entry in entries {
        let Some(core) = weak.upgrade().filter(|core| !core.shutdown.is_cancelled()) else { return Ok(Refilled::Abandoned) };
        let Some((kind, applied)) = apply_entry(&mut state, &entry?, |digest| core.load_archive(digest).map(Archive::Content)) else {
            continue;
        };
        let index = state.applied_index();
        if index >= before {
            break;
        }
        if kind == Kind::Restore && applied.result.is_ok() {
            // What was before it is another history.
            piece = Piece::default();
            history.begin_filling()?;
            oldest = index + 1;
            continue;
        }
        piece.add(Batch::encode(index, kind, &applied.changes));
        if piece.bytes >= PIECE_BYTES {
            piece.write(&history)?;
        }
    }
    piece.write(&history)?;
    if oldest >= before {
        history.found()?;
        return Ok(Refilled::NothingOlder);
    }
    Ok(if history.filled(oldest, before)? { Refilled::From(oldest, piece.entries) } else { Refilled::Abandoned })
}

/// The oldest state that the log can be replayed from, and the entries behind it. `None`: there is none that old.
fn beginning(core: &Core) -> Result<Option<(State, Entries)>, RefillError> {
    let log = core.log();
    let mut state = State::new();
    let oldest = log.oldest_index();
    if oldest > 1 {
        let reader = Reader::open(&core.dir)?;
        let mut found: Option<State> = None;
        for info in reader.report().map_err(RefillError::Checkpoint)?.checkpoints {
            let is_older = |index: u64| found.as_ref().is_none_or(|found| index < found.raft_index());
            if info.position.is_ok_and(|position| position.index + 1 >= oldest && is_older(position.index)) {
                let mut content = reader.checkpoint(&info.path).map_err(RefillError::Checkpoint)?;
                found = Some(State::read_checkpoint(&mut content)?);
            }
        }
        let Some(found) = found else { return Ok(None) };
        state = found;
    }
    let last = log.applied().map_or(0, |position| position.index);
    let entries = log.read(state.raft_index() + 1..last + 1)?;
    Ok(Some((state, entries)))
}

/// Entries that are written together.
#[derive(Default)]
struct Piece {
    batches: Vec<Arc<Batch>>,
    bytes: usize,
    /// How many were written before these.
    entries: usize,
}

impl Piece {
    fn add(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.bytes += batch.bytes();
            self.batches.push(Arc::new(batch));
        }
    }

    fn write(&mut self, history: &FjallHistory) -> Result<(), HistoryError> {
        history.fill(&self.batches)?;
        self.entries += self.batches.len();
        (self.bytes, self.batches) = (0, Vec::new());
        Ok(())
    }
}
