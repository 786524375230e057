//! Rebuilds the event history and the object history from the log after they were lost: a folder was deleted, or
//! was left out when the data was moved. Both are derived from the log, so nothing else is affected. Until they are
//! complete, readers get the oldest available index. One replay fills both, in a thread of its own.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use songline_api::Refilling;
use songline_events::refill::{Reached, RefillError, Refilled, Refiller};
use songline_log::Entries;
use songline_model::Time;
use songline_projections::State;
use tokio::sync::oneshot;

use super::machine::{Archive, apply_entry, replayed};
use super::past::FIRST_INDEX_MAX;
use super::stores::Stores;
use super::{Core, watching};

/// Delay before another attempt after a failure.
const RETRY_WAIT: Duration = Duration::from_secs(10);

/// Reasons why the stores could not be filled. They stay as they are, and the fill is tried again.
#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error("reading the log")]
    Read(#[from] songline_log::ReadError),
    #[error("reading a checkpoint")]
    Checkpoint(#[source] std::io::Error),
    #[error("reading a checkpoint")]
    State(#[from] songline_projections::CheckpointError),
    #[error(transparent)]
    Refill(#[from] RefillError),
}

/// Start time of the newest attempt to fill the stores.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<Option<Time>>);

impl Stores {
    /// The stores that are being rebuilt, with their progress.
    pub(crate) fn refillings(&self) -> Vec<Refilling> {
        let since = *self.refill.0.lock();
        let lost = self.derived().into_iter().filter(|store| *store.losses().borrow());
        // A store that cannot report its progress is closed because its disk failed, which is reported elsewhere.
        lost.filter_map(|store| Some(Refilling { store: store.name(), filling: store.filling().ok()?, since }))
            .collect()
    }
}

/// Fills the stores whenever one was lost, for as long as the server runs.
pub(crate) fn start(core: &Arc<Core>) {
    let [mut events, mut object_history] = core.stores.derived().map(|store| store.losses());
    watching::until_shutdown(core, async move |own| {
        loop {
            // The stores live as long as the server, so a closed channel ends the loop.
            let waited = tokio::select! {
                lost = events.wait_for(|lost| *lost) => lost.is_ok(),
                lost = object_history.wait_for(|lost| *lost) => lost.is_ok(),
            };
            if !waited {
                return;
            }
            if !fill_once(&own).await {
                tokio::time::sleep(RETRY_WAIT).await;
            }
        }
    });
}

/// Runs one fill. Returns whether the stores are as complete as the log allows.
async fn fill_once(weak: &Weak<Core>) -> bool {
    let Some(core) = weak.upgrade() else { return false };
    let (told, done) = oneshot::channel();
    let (disk, observer) = (Arc::clone(&core.facts.disk), core.facts.surroundings.observer.clone());
    let (own, has_thread) = (Weak::clone(weak), disk.waits());
    drop(core);
    let run = move || {
        if has_thread {
            songline_events::background::give_way();
        }
        let filled = match refill(&own) {
            // Not `all`, which stops at the first store that was not filled: the outcome of each is logged.
            Ok(Some(stores)) => stores.into_iter().fold(true, |all, (store, came_of_it)| {
                if let Some(observer) = &observer {
                    observer.refilled(store, came_of_it);
                }
                tell(store, came_of_it) && all
            }),
            Ok(None) => false,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "what was lost could not be filled anew from the log"
                );
                false
            }
        };
        // The receiver is gone when the server is shutting down.
        let _ = told.send(filled);
    };
    if let Err(error) = disk.start_blocking("refill", run) {
        tracing::error!(error = &error as &dyn std::error::Error, "starting to fill what was lost anew");
    }
    done.await.unwrap_or(false)
}

fn tell(store: &'static str, came_of_it: Refilled) -> bool {
    match came_of_it {
        Refilled::From(oldest) => tracing::info!(store, oldest, "filled anew from the log"),
        Refilled::NothingOlder => {
            tracing::warn!(store, "older entries were lost, and the log has none that are older than what is there")
        }
        Refilled::Abandoned => return false,
    }
    true
}

/// Replays the log into every lost store. `None` when the server is shutting down; its next start resumes the fill.
fn refill(weak: &Weak<Core>) -> Result<Option<Vec<(&'static str, Refilled)>>, ReplayError> {
    let Some(core) = weak.upgrade() else { return Ok(None) };
    let Some(mut refiller) = Refiller::of(core.stores.derived())? else { return Ok(Some(Vec::new())) };
    *core.stores.refill.0.lock() = Some(core.world().wall());
    let Some((mut state, entries)) = beginning(&core, refiller.resumes_after())? else {
        refiller.give_up()?;
        return Ok(Some(refiller.end()?));
    };
    refiller.begin(Reached { index: state.applied_index(), raft_index: state.raft_index() })?;
    // Drop the reference: a server that shuts down does not wait for this thread.
    drop(core);
    for entry in entries {
        if !refiller.wants_more() {
            break;
        }
        let Some(core) = weak.upgrade().filter(|core| !core.shutdown.is_cancelled()) else { return Ok(None) };
        let entry = entry?;
        let raft_index = entry.position.index;
        #[cfg(test)]
        if tests::is_interrupted(&core.facts.dir, raft_index) {
            refiller.write_now();
            return Ok(None);
        }
        match apply_entry(&mut state, &entry, |digest| core.load_archive(digest).map(Archive::Content)) {
            Some((kind, applied)) => refiller.add(replayed(&state, kind, applied), raft_index)?,
            None => refiller.pass(Reached { index: state.applied_index(), raft_index }),
        }
    }
    let told = refiller.end()?;
    if let Some(core) = weak.upgrade() {
        // Retention may have dropped log entries meanwhile that were filled in.
        super::keeping::forget_derived(&core);
        *core.stores.refill.0.lock() = None;
    }
    Ok(Some(told))
}

/// The state to replay the log from, and the entries after it. After an interrupted fill, the state is the newest
/// checkpoint that has not applied more than `resumes_after`; otherwise the oldest available state. `None` when there
/// is no state to replay from.
fn beginning(core: &Core, resumes_after: u64) -> Result<Option<(State, Entries)>, ReplayError> {
    let log = core.log();
    let oldest = log.oldest_index();
    let mut usable = log.checkpoint_indexes().map_err(ReplayError::Checkpoint)?;
    usable.retain(|index| index + 1 >= oldest);
    usable.sort_unstable();
    let resumed = usable.iter().copied().rfind(|index| *index <= resumes_after);
    let chosen = resumed.or_else(|| usable.first().copied().filter(|_| oldest > FIRST_INDEX_MAX));
    let state = match chosen {
        Some(index) => State::read_checkpoint(&mut log.read_checkpoint(index).map_err(ReplayError::Checkpoint)?)?,
        None if oldest <= FIRST_INDEX_MAX => State::new(),
        None => return Ok(None),
    };
    let next = if chosen.is_some() { state.raft_index() + 1 } else { oldest };
    let last = log.applied().map_or(0, |position| position.index);
    let entries = log.read(next..last + 1)?;
    Ok(Some((state, entries)))
}
