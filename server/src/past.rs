//! Past states, rebuilt from the nearest checkpoint and the log entries after it, and cached for a while.
//!
//! States that were derived from one another share most of their rows, so a cached state costs little beside its
//! ancestor. The number of unrelated ancestors is bounded, because each of them may be as large as the live state.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use songline_commands::Envelope;
use songline_events::hub::EventHub;
use songline_events::object_history::ObjectHistory;
use songline_events::past::{LoggedCommand, Past, PastError, PastFuture};
use songline_log::{Committed, Log, Payload};
use songline_projections::State;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Core, Machine, replay};

/// Number of concurrent rebuilds; further ones wait for their turn.
const REBUILDS_MAX: usize = 2;
/// Largest number of cached states.
const STATES_MAX: usize = 16;
/// Largest number of lines (groups of states that share rows) in the cache.
const LINES_MAX: usize = 2;
/// Time after which an unused state is dropped from the cache.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Number of recent live states that are kept. Repeated writes ask for states of a moment ago, which are rebuilt from
/// one of these instead of a checkpoint.
const LIVE_STATES_MAX: usize = 2;
/// Least time between two kept live states.
const LIVE_APART: Duration = Duration::from_secs(60);
/// The line of live states and of states that are rebuilt from them; they share most rows with the newest state.
const LIVE_LINE: u64 = 0;

/// A log whose oldest entry is at or below this raft index is complete: consensus begins at 0 or 1.
pub(super) const FIRST_INDEX_MAX: u64 = 1;

/// Cached past states.
pub(crate) struct PastStates {
    kept: Mutex<Kept>,
    /// Index of the last archive restore that this process applied. the object history knows earlier restores, and
    /// records this one a moment later.
    floor: AtomicU64,
    turns: Arc<Semaphore>,
}

#[derive(Default)]
struct Kept {
    states: Vec<KeptState>,
    /// Live states, oldest first, with the times at which they were kept.
    live: VecDeque<(Arc<State>, Instant)>,
    /// Number of the newest line.
    lines: u64,
}

struct KeptState {
    state: Arc<State>,
    /// Line of the state. States of one line share rows: they were rebuilt from the same checkpoint.
    line: u64,
    used: Instant,
}

impl Default for PastStates {
    fn default() -> Self {
        Self { kept: Mutex::default(), floor: AtomicU64::new(0), turns: Arc::new(Semaphore::new(REBUILDS_MAX)) }
    }
}

impl PastStates {
    /// Keeps the newest state, unless one was kept less than `LIVE_APART` ago.
    pub(crate) fn witness(&self, newest: Arc<State>) {
        let mut kept = self.kept.lock();
        if kept.live.back().is_some_and(|(_, since)| since.elapsed() < LIVE_APART) {
            return;
        }
        kept.live.push_back((newest, Instant::now()));
        if kept.live.len() > LIVE_STATES_MAX {
            kept.live.pop_front();
        }
    }

    /// Drops states that were not used lately.
    pub(crate) fn forget_unused(&self) {
        self.kept.lock().states.retain(|kept| kept.used.elapsed() < KEPT_FOR);
    }

    /// Clears the cache: the entry at `floor` restored an archive, so earlier states belong to another history.
    pub(crate) fn begin_anew(&self, floor: u64) {
        self.floor.store(floor, Ordering::Release);
        let mut kept = self.kept.lock();
        kept.states.clear();
        kept.live.clear();
    }

    /// The state after the entry `raft_index`, or the nearest one before it.
    fn nearest(&self, raft_index: u64, base: u64) -> Option<(Arc<State>, u64)> {
        let kept = &mut *self.kept.lock();
        let is_before = |state: &State| state.raft_index() <= raft_index && state.base() == base;
        let live = kept
            .live
            .iter()
            .map(|(state, _)| state)
            .filter(|state| is_before(state))
            .max_by_key(|state| state.raft_index());
        let rebuilt =
            kept.states.iter_mut().filter(|kept| is_before(&kept.state)).max_by_key(|kept| kept.state.raft_index());
        match (live, rebuilt) {
            (Some(live), rebuilt)
                if rebuilt.as_ref().is_none_or(|kept| kept.state.raft_index() < live.raft_index()) =>
            {
                Some((Arc::clone(live), LIVE_LINE))
            }
            (_, rebuilt) => {
                let nearest = rebuilt?;
                nearest.used = Instant::now();
                Some((Arc::clone(&nearest.state), nearest.line))
            }
        }
    }

    fn keep(&self, state: &Arc<State>, line: Option<u64>) {
        let mut kept = self.kept.lock();
        if kept.states.iter().any(|kept| kept.state.raft_index() == state.raft_index()) {
            return;
        }
        let line = line.unwrap_or_else(|| {
            kept.lines += 1;
            kept.lines
        });
        kept.states.push(KeptState { state: Arc::clone(state), line, used: Instant::now() });
        while kept.states.len() > STATES_MAX {
            let oldest = kept.states.iter().enumerate().min_by_key(|(_, kept)| kept.used).map(|(at, _)| at);
            oldest.map(|at| kept.states.swap_remove(at));
        }
        loop {
            let mut lines: Vec<u64> =
                kept.states.iter().map(|kept| kept.line).filter(|line| *line != LIVE_LINE).collect();
            lines.sort_unstable();
            lines.dedup();
            if lines.len() <= LINES_MAX {
                return;
            }
            let used = |line: u64| kept.states.iter().filter(|kept| kept.line == line).map(|kept| kept.used).max();
            let Some(unused) = lines.into_iter().min_by_key(|line| used(*line)) else { return };
            kept.states.retain(|kept| kept.line != unused);
        }
    }
}

impl Past for Core {
    fn object_history(&self) -> &Arc<ObjectHistory> {
        Core::object_history(self)
    }

    fn events(&self) -> &Arc<EventHub> {
        Core::events(self)
    }

    fn oldest_entry(&self) -> u64 {
        (self.log().oldest_index() + self.view().base()).max(self.past_floor())
    }

    fn state_at(&self, index: u64) -> PastFuture<'_, Arc<State>> {
        Box::pin(self.past_state(index))
    }

    fn commands(&self, range: Range<u64>) -> PastFuture<'_, Vec<LoggedCommand>> {
        let (log, base, oldest) = (self.log().clone(), self.view().base(), Past::oldest_entry(self));
        let work = move || commands(&log, base, range.start.max(oldest)..range.end);
        Box::pin(blocking(work))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PastError> + Send + 'static,
) -> Result<T, PastError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| PastError::Failed(error.to_string()))?
}

fn failed(error: impl std::fmt::Display) -> PastError {
    PastError::Failed(error.to_string())
}

fn commands(log: &Log<Machine>, base: u64, range: Range<u64>) -> Result<Vec<LoggedCommand>, PastError> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let entries = log.read(range.start.saturating_sub(base)..range.end.saturating_sub(base)).map_err(failed)?;
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Payload::Command(bytes) = &entry.payload {
            let envelope = Envelope::decode(bytes).map_err(failed)?;
            out.push(LoggedCommand { index: entry.position.index + base, envelope });
        }
    }
    Ok(out)
}

impl Core {
    /// Index of the last archive restore, 0 when there was none.
    fn past_floor(&self) -> u64 {
        Core::object_history(self).floor().max(self.published.past.floor.load(Ordering::Acquire))
    }

    async fn past_state(&self, index: u64) -> Result<Arc<State>, PastError> {
        let newest = self.view();
        let (base, applied) = (newest.base(), newest.applied_index());
        if index > applied {
            return Err(PastError::AboveNewest { wanted: index, newest: applied });
        }
        if index == applied {
            return Ok(newest);
        }
        let floor = self.past_floor();
        let below = |oldest: u64| PastError::BelowOldest { wanted: index, oldest };
        if index < floor || index < base {
            return Err(below(floor.max(base)));
        }
        let Ok(_turn) = Arc::clone(&self.published.past.turns).acquire_owned().await else {
            return Err(failed("the server is going down"));
        };
        let wanted = index - base;
        let found = self.published.past.nearest(wanted, base);
        if let Some((state, _)) = &found
            && state.raft_index() == wanted
        {
            return Ok(Arc::clone(state));
        }
        // If the client disconnects, this future is dropped, and its guard cancels the rebuild.
        let gone = self.shutdown_token().child_token();
        let _guard = gone.clone().drop_guard();
        let (log, dir) = (self.log().clone(), self.facts.dir.clone());
        let (kept, line) = found.map_or((None, None), |(state, line)| (Some(state), Some(line)));
        let rebuilt = blocking(move || rebuild(&log, kept, wanted, &gone, &dir)).await?;
        let state = match rebuilt.ok_or_else(|| failed("the request is gone"))? {
            Rebuilt::State { state, from_kept } => {
                if state.base() == base {
                    self.published.past.keep(&state, line.filter(|_| from_kept));
                }
                state
            }
            Rebuilt::BelowOldest(oldest) => return Err(below((oldest + base).max(floor))),
        };
        if state.base() == base {
            return Ok(state);
        }
        // The object history's record of the restore was lost; the replay is the first to find the restore.
        Err(failed(format!("index {index} was before an archive was restored")))
    }
}

enum Rebuilt {
    State {
        state: Arc<State>,
        /// Whether the state was rebuilt from the cached state.
        from_kept: bool,
    },
    /// Needed checkpoints or log entries are gone; states are available from this log index on.
    BelowOldest(u64),
}

/// The log's checkpoints and entries, as far as a rebuild needs them.
trait Files {
    fn oldest_index(&self) -> u64;
    /// Raft indexes of the checkpoints, newest first.
    fn checkpoints(&self) -> Result<Vec<u64>, PastError>;
    fn checkpoint(&self, index: u64) -> Result<State, String>;
    fn entries(&self, range: Range<u64>) -> Result<impl Iterator<Item = Result<Committed, PastError>>, PastError>;
}

impl Files for Log<Machine> {
    fn oldest_index(&self) -> u64 {
        Log::oldest_index(self)
    }

    fn checkpoints(&self) -> Result<Vec<u64>, PastError> {
        self.checkpoint_indexes().map_err(failed)
    }

    fn checkpoint(&self, index: u64) -> Result<State, String> {
        let mut content = self.read_checkpoint(index).map_err(|error| error.to_string())?;
        State::read_checkpoint(&mut content).map_err(|error| error.to_string())
    }

    fn entries(&self, range: Range<u64>) -> Result<impl Iterator<Item = Result<Committed, PastError>>, PastError> {
        Ok(self.read(range).map_err(failed)?.map(|entry| entry.map_err(failed)))
    }
}

/// Rebuilds the state after the entry `wanted`. `None` when the request was cancelled.
fn rebuild(
    log: &impl Files,
    kept: Option<Arc<State>>,
    wanted: u64,
    gone: &CancellationToken,
    dir: &Path,
) -> Result<Option<Rebuilt>, PastError> {
    let kept_index = kept.as_ref().map(|state| state.raft_index());
    let oldest_entry = log.oldest_index();
    let mut checkpoints = log.checkpoints()?;
    // The log must have every entry after a usable checkpoint.
    checkpoints.retain(|index| *index + 1 >= oldest_entry);
    let usable =
        checkpoints.iter().copied().filter(|index| *index <= wanted && kept_index.is_none_or(|kept| kept < *index));
    let mut read = None;
    for index in usable {
        match log.checkpoint(index) {
            Ok(state) => {
                read = Some(state);
                break;
            }
            // An earlier checkpoint works, too; it only takes longer.
            Err(error) => tracing::warn!(index, %error, "a checkpoint cannot be used for a past state"),
        }
    }
    let from_kept = read.is_none() && kept_index.is_some_and(|index| index + 1 >= oldest_entry);
    let mut state = match (read, kept) {
        (Some(state), _) => state,
        (None, Some(kept)) if from_kept => State::clone(&kept),
        (None, _) if oldest_entry <= FIRST_INDEX_MAX => State::new(),
        (None, _) => return Ok(Some(Rebuilt::BelowOldest(checkpoints.last().copied().unwrap_or(oldest_entry)))),
    };
    let untouched = state.raft_index() == 0 && !from_kept;
    let next = if untouched { oldest_entry } else { state.raft_index() + 1 };
    if next <= wanted {
        for entry in log.entries(next..wanted + 1)? {
            if gone.is_cancelled() {
                return Ok(None);
            }
            replay(&mut state, &entry?, |digest| super::load_archive(dir, digest));
        }
    }
    if state.raft_index() != wanted {
        return Err(failed(format!("the log ends at entry {}", state.raft_index())));
    }
    Ok(Some(Rebuilt::State { state: Arc::new(state), from_kept }))
}

#[cfg(test)]
mod tests;
